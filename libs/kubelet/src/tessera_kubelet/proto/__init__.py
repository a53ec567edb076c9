"""Made by `make generate` from the descriptions in proto/."""
