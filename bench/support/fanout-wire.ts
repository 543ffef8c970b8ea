import { randomBytes } from "node:crypto";
import { connect, type Socket } from "node:net";

/** The bytes that a subscriber speaks: WebSocket, and what a server of each kind says inside. */
export type Dialect = "ws" | "socket.io" | "colyseus";

const OPCODE = { TEXT: 1, BINARY: 2, CLOSE: 8, PING: 9, PONG: 10 } as const;
const SHORT_MAX = 125;
const MIDDLE_MAX = 65_535;

/** A client's frame; the mask of zeros leaves the payload as it is. */
const frameOf = (opcode: number, payload: Buffer): Buffer => {
  const isShort = payload.length <= SHORT_MAX;
  if (payload.length > MIDDLE_MAX) throw new Error("a client sends no such frame");
  const head = Buffer.alloc(isShort ? 6 : 8);
  head[0] = 0x80 | opcode;
  head[1] = 0x80 | (isShort ? payload.length : 126);
  if (!isShort) head.writeUInt16BE(payload.length, 2);
  return Buffer.concat([head, payload]);
};

type OnFrame = (opcode: number, payload: Buffer, bytes: number) => void;

/** Cuts what a server sends into frames; returns what waits for more bytes. */
const readFrames = (data: Buffer, onFrame: OnFrame): Buffer | undefined => {
  let at = 0;
  while (data.length - at >= 2) {
    let length = data[at + 1]! & 0x7f;
    let head = 2;
    if (length === 126) {
      head = 4;
      if (data.length - at < head) break;
      length = data.readUInt16BE(at + 2);
    } else if (length === 127) {
      head = 10;
      if (data.length - at < head) break;
      length = Number(data.readBigUInt64BE(at + 2));
    }
    const end = at + head + length;
    if (end > data.length) break;
    onFrame(data[at]! & 0x0f, data.subarray(at + head, end), head + length);
    at = end;
  }
  return at < data.length ? data.subarray(at) : undefined;
};

export type Wire = {
  send(payload: Buffer | string): void;
  /** Ends the socket without a word. */
  cut(): void;
};
export type WireEvents = {
  onOpen(): void;
  /** One message; `bytes` with the frame's head. */
  onMessage(payload: Buffer, bytes: number): void;
  /** Says the server's reason, if it gave one. */
  onClose(reason: string): void;
};

/** A WebSocket that costs the generator as little as can be: no unmasking, no events, no copies. */
export const openWire = (port: number, path: string, events: WireEvents): Wire => {
  const socket: Socket = connect(port, "127.0.0.1");
  let rest: Buffer | undefined;
  let isOpen = false;
  let reason = "cut";
  const onFrame: OnFrame = (opcode, payload, bytes) => {
    if (opcode === OPCODE.PING) socket.write(frameOf(OPCODE.PONG, payload));
    else if (opcode === OPCODE.CLOSE) {
      reason =
        payload.length < 2 ? "closed" : `closed ${payload.readUInt16BE(0)} ${payload.toString("utf8", 2)}`;
      socket.end(frameOf(OPCODE.CLOSE, payload));
    } else if (opcode !== OPCODE.PONG) events.onMessage(payload, bytes);
  };
  socket.setNoDelay(true);
  socket.on("error", () => undefined);
  socket.on("close", () => events.onClose(reason));
  socket.on("data", (chunk: Buffer) => {
    let data = rest ? Buffer.concat([rest, chunk]) : chunk;
    rest = undefined;
    if (!isOpen) {
      const end = data.indexOf("\r\n\r\n");
      if (end < 0) return void (rest = data);
      if (!data.subarray(0, 12).equals(Buffer.from("HTTP/1.1 101"))) return void socket.destroy();
      isOpen = true;
      events.onOpen();
      data = data.subarray(end + 4);
    }
    rest = readFrames(data, onFrame);
  });
  const lines = [
    `GET ${path} HTTP/1.1`,
    `Host: 127.0.0.1:${port}`,
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    `Sec-WebSocket-Key: ${randomBytes(16).toString("base64")}`,
  ];
  socket.write(`${lines.join("\r\n")}\r\n\r\n`);
  return {
    send: (payload) => {
      const opcode = typeof payload === "string" ? OPCODE.TEXT : OPCODE.BINARY;
      socket.write(frameOf(opcode, Buffer.from(payload)));
    },
    cut: () => socket.destroy(),
  };
};

/** First bytes of Colyseus's messages. */
export const ROOM = { JOIN: 10, LEAVE: 12, DATA: 13, STATE: 14, PATCH: 15 } as const;

const shortText = (text: string): Buffer =>
  Buffer.concat([Buffer.from([0xa0 | text.length]), Buffer.from(text)]);

/** A room's message `{content}` of a type, as the SDK writes it. */
export const roomMessage = (type: string, content: string): Buffer => {
  const text = Buffer.from(content);
  const head = Buffer.from([ROOM.DATA]);
  const body = Buffer.concat([Buffer.from([0x81]), shortText("content"), Buffer.from([0xda, 0, 0]), text]);
  body.writeUInt16BE(text.length, body.length - text.length - 2);
  return Buffer.concat([head, shortText(type), body]);
};

/** How a room's message of a type begins. */
export const roomMessageHead = (type: string): Buffer =>
  Buffer.concat([Buffer.from([ROOM.DATA]), shortText(type)]);
