/** A new data key. */
export interface DataKey {
  /** The key, 32 bytes. The caller overwrites it with zeros after use. */
  plain: Uint8Array;
  /** The key sealed by a master key, 1 to 6,144 bytes. It is stored beside what the key encrypts. */
  sealed: Uint8Array;
}

/** Makes and opens the data keys of encrypted attributes. It is used for several items at the same time. */
export interface KeyProvider {
  /** Makes a data key. The provider does not keep it. */
  newDataKey(signal?: AbortSignal): Promise<DataKey>;
  /**
   * Opens a data key that `newDataKey` of this provider, or of one with the same master
   * key, has sealed. Keys that were sealed before the master key was rotated stay readable.
   * The caller overwrites the result with zeros after use.
   *
   * @throws UnknownKeyError if the provider does not have the master key, TamperedError if
   * the sealed key was modified
   */
  openDataKey(sealed: Uint8Array, signal?: AbortSignal): Promise<Uint8Array>;
}
