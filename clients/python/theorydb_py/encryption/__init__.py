"""Keys of encrypted attributes.

A field that is declared with ``theorydb_field(encrypted=True)`` is stored as
AES-256-GCM ciphertext, bound to its table, item and attribute. The encrypted attributes
of one write share a data key, which is stored with each of them, sealed by a master key.
The master key never leaves its provider: AWS KMS (KmsKeys), or a file for development
(KeyFile). The format is the same in Go and TypeScript.

    table = Table(model, keys=KmsKeys(boto3.client("kms"), "alias/app"))

Needs the package cryptography: ``pip install 'facetheory-tabletheory[encryption]'``.
Python cannot wipe memory: plaintexts and data keys stay in it until it is reused.
"""

from theorydb_py.encryption._keyfile import KeyFile
from theorydb_py.encryption._kms import KmsClient, KmsKeys
from theorydb_py.encryption._provider import DataKey, KeyProvider

__all__ = ["DataKey", "KeyFile", "KeyProvider", "KmsClient", "KmsKeys"]
