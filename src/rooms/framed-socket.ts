import { WebSocket } from "ws";

type SendOptions = Parameters<WebSocket["send"]>[1];
type Done = (error?: Error) => void;
/** The part of ws that writes a finished frame; state 0 is that nothing waits in it. */
type Writer = { _state: number; sendFrame(list: readonly Buffer[], done?: Done): void };

/** A final frame of binary data. */
const FIN_BINARY = 0x82;
/** Lengths from here on take 2 more bytes, and 8 more. */
const LENGTH_16_BITS = 126;
const LENGTH_64_BITS = 65_536;

/** The frame of a server's binary message (RFC 6455, 5.2). */
export const binaryFrame = (data: Uint8Array): Buffer => {
  const { length } = data;
  const extra = length < LENGTH_16_BITS ? 0 : length < LENGTH_64_BITS ? 2 : 8;
  const frame = Buffer.allocUnsafe(2 + extra + length);
  frame[0] = FIN_BINARY;
  if (extra === 0) frame[1] = length;
  else if (extra === 2) {
    frame[1] = 126;
    frame.writeUInt16BE(length, 2);
  } else {
    frame[1] = 127;
    frame.writeBigUInt64BE(BigInt(length), 2);
  }
  frame.set(data, 2 + extra);
  return frame;
};

/** The message that is being sent to one socket after another, with its frame. */
let shared: { data: Uint8Array; frame: Buffer } | undefined;

/** A frame is good for as long as nobody can have written into the message: until this turn ends. */
const frameOf = (data: Uint8Array): Buffer => {
  if (shared?.data === data) return shared.frame;
  if (!shared) queueMicrotask(() => (shared = undefined));
  const frame = binaryFrame(data);
  shared = { data, frame };
  return frame;
};

/**
 * A server's socket that frames a message once when it goes to many, and writes it in one piece. ws itself
 * makes a header for each send and writes header and message apart, which is much of what a broadcast costs.
 */
export class FramedSocket extends WebSocket {
  override send(data: unknown, options?: unknown, done?: unknown): void {
    const writer = (this as unknown as { _sender?: Writer })._sender;
    const isPlain = data instanceof Uint8Array && typeof options === "object" && this.extensions === "";
    // Not open, compressed, or something waits in the sender: ws knows what to do.
    if (isPlain && this.readyState === WebSocket.OPEN && writer?._state === 0)
      writer.sendFrame([frameOf(data)], done as Done | undefined);
    else super.send(data as Uint8Array, options as SendOptions, done as Done);
  }
}
