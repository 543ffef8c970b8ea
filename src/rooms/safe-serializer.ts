import { SchemaSerializer } from "@colyseus/core";
import { Encoder, type Schema } from "@colyseus/schema";

type Encode = Encoder["encode"];

/**
 * Core hands every socket a view of one shared encode buffer and writes over it at the next patch, so a
 * socket that is slow to send transmits bytes of a later patch. One private copy for each patch (not for
 * each client) answers that.
 */
export class SafeSerializer extends SchemaSerializer<Schema> {
  readonly #bufferBytes: number;

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
    const encode: Encode = encoder.encode.bind(encoder);
    // A pass for a view is copied by the encoder itself.
    encoder.encode = (...args: Parameters<Encode>) =>
      args[1] === undefined ? encode(...args).slice() : encode(...args);
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
