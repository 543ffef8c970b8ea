import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { connect, type Socket } from "node:net";

/** What the first byte of a frame says. */
export const OPCODE = { CONTINUATION: 0, TEXT: 1, BINARY: 2, PING: 9, PONG: 10 } as const;

/** A client's frame; the mask of zeros leaves the payload as it is. */
export const frame = (opcode: number, payload: Buffer | string = "", isLast = true): Buffer => {
  const data = Buffer.from(payload);
  const first = (isLast ? 0x80 : 0) | opcode;
  const [short, middle] = [data.length < 126, data.length < 65_536];
  const head = Buffer.alloc(short ? 2 : middle ? 4 : 10);
  head[0] = first;
  head[1] = 0x80 | (short ? data.length : middle ? 126 : 127);
  if (!short) {
    if (middle) head.writeUInt16BE(data.length, 2);
    else head.writeBigUInt64BE(BigInt(data.length), 2);
  }
  return Buffer.concat([head, Buffer.alloc(4), data]);
};

/** A socket that speaks WebSocket no better than it is told to. */
export type RawClient = {
  socket: Socket;
  write(data: Buffer): void;
  /** True once the server has ended it; a client that does not read cannot see that. */
  isClosed(): boolean;
};

const JOIN_ROOM = 10;

/** Takes a seat by hand at the process of `port`, and acknowledges the join. */
export const takeSeat = async (
  port: number,
  { processId, roomId, sessionId }: { processId: string; roomId: string; sessionId: string },
): Promise<RawClient> => {
  const socket = connect(port, "127.0.0.1");
  let closed = false;
  socket.on("error", () => undefined);
  socket.on("close", () => {
    closed = true;
  });
  await once(socket, "connect");
  const lines = [
    `GET /${processId}/${roomId}?sessionId=${sessionId} HTTP/1.1`,
    "Host: localhost",
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    `Sec-WebSocket-Key: ${randomBytes(16).toString("base64")}`,
  ];
  socket.write(`${lines.join("\r\n")}\r\n\r\n`);
  const [answer] = (await once(socket, "data")) as [Buffer];
  if (!answer.toString("latin1").startsWith("HTTP/1.1 101 ")) throw new Error(answer.toString("latin1"));
  const client: RawClient = {
    socket,
    write: (data) => {
      if (!socket.destroyed) socket.write(data);
    },
    isClosed: () => closed,
  };
  client.write(frame(OPCODE.BINARY, Buffer.from([JOIN_ROOM])));
  return client;
};
