"""Answers over HTTP beside the extender's: explanations and HAMi's metrics."""
