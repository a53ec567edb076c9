"""HTTP answers other than the extender's: HAMi's metrics, and who may ask for what."""
