"""DynamoDB tables of dataclasses, leases, and the metadata of a FaceTheory ISR cache.

The rows are those of the services in Go and TypeScript that share the table.
"""

__version__ = "0.1.0"
