import { type Client, SchemaSerializer } from "@colyseus/core";
import { Encoder, type Schema, type StateView } from "@colyseus/schema";

type Encode = Encoder["encode"];

/** Returns a larger buffer with the same content, and replaces the encoder's shared one if it was that. */
function grow(this: Encoder, buffer: Uint8Array, usedBytes: number): Uint8Array {
  const larger = new Uint8Array(Math.max(usedBytes, 2 * buffer.byteLength));
  larger.set(buffer);
  if (buffer === this.sharedBuffer) this.sharedBuffer = larger;
  return larger;
}

/** Encodings of the current patch by view, where core looks before it encodes. */
class EncodedViews extends Map<object, Uint8Array> {
  readonly #sharedOf: (view: object) => Uint8Array | undefined;

  constructor(sharedOf: (view: object) => Uint8Array | undefined) {
    super();
    this.#sharedOf = sharedOf;
  }

  override get(view: object): Uint8Array | undefined {
    return this.#sharedOf(view) ?? super.get(view);
  }
}

/**
 * Core gives every socket a view of one shared encode buffer and overwrites it at the next patch, so a slow
 * socket would transmit bytes of a later patch. This serializer makes one private copy per patch (not per
 * client). Clients who join get what has changed once, in their full state, and not again in the next patch:
 * arrays would have it twice.
 */
export class SafeSerializer extends SchemaSerializer<Schema> {
  readonly #bufferBytes: number;
  /** Sends what has changed to all clients but one. */
  readonly #flush: (but?: Client) => void;
  /**
   * Views with changes since the last patch, for rooms that track them; the others are sent the shared patch,
   * encoded once. Undefined: any may have changed.
   */
  #touched: Set<object> | undefined;
  /** The shared part of the current patch. */
  #shared: Uint8Array | undefined;

  /** @param bufferBytes initial size of the two encode buffers; they grow with the state */
  constructor(bufferBytes: number, flush: (but?: Client) => void) {
    super();
    this.#bufferBytes = bufferBytes;
    this.#flush = flush;
    this.fullEncodeBuffer = new Uint8Array(bufferBytes);
  }

  override reset(state: Schema): void {
    // The encoder takes its buffer size from a static field, and only in its constructor.
    const usual = Encoder.BUFFER_SIZE;
    Encoder.BUFFER_SIZE = this.#bufferBytes;
    try {
      super.reset(state);
    } finally {
      Encoder.BUFFER_SIZE = usual;
    }
    const { encoder } = this;
    // The encoder's own resize writes a long warning to the console each time.
    Object.assign(encoder, { _resizeBuffer: grow });
    const encode: Encode = encoder.encode.bind(encoder);
    // A pass for a view is copied by the encoder itself.
    encoder.encode = (...args: Parameters<Encode>) => {
      if (args[1] !== undefined) return encode(...args);
      this.#shared = encode(...args).slice();
      return this.#shared;
    };
    this.encodedViews = new EncodedViews((view) => (this.#isTouched(view) ? undefined : this.#shared));
  }

  override applyPatches(...args: Parameters<SchemaSerializer<Schema>["applyPatches"]>): boolean {
    try {
      return super.applyPatches(...args);
    } finally {
      this.#touched?.clear();
      this.#shared = undefined;
    }
  }

  /** Makes changes that nobody sees who has the state already: they are part of full states alone. */
  unsent(change: () => void): void {
    if (this.encoder.hasChanges) this.#flush();
    change();
    this.encoder.discardChanges();
    this.needFullEncode = true;
  }

  touch(view: StateView): void {
    this.#touched ??= new Set();
    this.#touched.add(view);
  }

  #isTouched(view: object): boolean {
    return !this.#touched || this.#touched.has(view) || (view as Partial<StateView>).changes?.size !== 0;
  }

  override getFullState(...args: Parameters<SchemaSerializer<Schema>["getFullState"]>): Uint8Array {
    const [client] = args;
    if (client && this.encoder.hasChanges) this.#flush(client);
    const bytes = super.getFullState(...args).slice();
    if (bytes.byteLength > this.fullEncodeBuffer.byteLength) {
      const protocolByte = this.fullEncodeBuffer[0]!;
      this.fullEncodeBuffer = new Uint8Array(bytes.byteLength * 2);
      this.fullEncodeBuffer[0] = protocolByte;
      this.needFullEncode = true;
    }
    return bytes;
  }
}
