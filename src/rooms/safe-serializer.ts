import { SchemaSerializer } from "@colyseus/core";
import { Encoder, type Schema, type StateView } from "@colyseus/schema";

type Encode = Encoder["encode"];

/** A larger buffer with the same content, in the place of the encoder's shared one if it was that. */
function grow(this: Encoder, buffer: Uint8Array, usedBytes: number): Uint8Array {
  const larger = new Uint8Array(Math.max(usedBytes, 2 * buffer.byteLength));
  larger.set(buffer);
  if (buffer === this.sharedBuffer) this.sharedBuffer = larger;
  return larger;
}

/** What core has encoded in the patch at hand for each view, where it looks before it encodes. */
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
 * Core hands every socket a view of one shared encode buffer and writes over it at the next patch, so a
 * socket that is slow to send transmits bytes of a later patch. One private copy for each patch (not for
 * each client) answers that.
 */
export class SafeSerializer extends SchemaSerializer<Schema> {
  readonly #bufferBytes: number;
  /**
   * The views of which something has changed since the last patch, kept by a room that knows; the others are
   * sent what all are, encoded once. Undefined: any may have changed.
   */
  #touched: Set<object> | undefined;
  /** What the patch at hand has for all. */
  #shared: Uint8Array | undefined;

  /** @param bufferBytes first size of the two encode buffers; they grow when the state does */
  constructor(bufferBytes: number) {
    super();
    this.#bufferBytes = bufferBytes;
    this.fullEncodeBuffer = new Uint8Array(bufferBytes);
  }

  override reset(state: Schema): void {
    // The encoder takes its buffer size from a static field, and only when it is made.
    const usual = Encoder.BUFFER_SIZE;
    Encoder.BUFFER_SIZE = this.#bufferBytes;
    try {
      super.reset(state);
    } finally {
      Encoder.BUFFER_SIZE = usual;
    }
    const { encoder } = this;
    // The encoder's own way to grow writes a page of advice on the console each time.
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

  touch(view: StateView): void {
    this.#touched ??= new Set();
    this.#touched.add(view);
  }

  #isTouched(view: object): boolean {
    return !this.#touched || this.#touched.has(view) || (view as Partial<StateView>).changes?.size !== 0;
  }

  override getFullState(...args: Parameters<SchemaSerializer<Schema>["getFullState"]>): Uint8Array {
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
