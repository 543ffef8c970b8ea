import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/** Counts what clients send in one connection: whole messages in `bytes`, and how many bytes these took. */
type Reader = (bytes: Buffer) => { count: number; taken: number };

/** Statements: messages that run something. The first message of a connection has no type. */
const postgresReader = (): Reader => {
  let isStarted = false;
  return (bytes) => {
    let [count, at] = [0, 0];
    for (;;) {
      const head = isStarted ? 1 : 0;
      if (bytes.length < at + head + 4) break;
      const size = head + bytes.readUInt32BE(at + head);
      if (bytes.length < at + size) break;
      const type = isStarted ? String.fromCharCode(bytes[at]!) : "";
      if (type === "E" || type === "Q") count++;
      isStarted = true;
      at += size;
    }
    return { count, taken: at };
  };
};

/** Commands: arrays of texts, whose lengths are told before them. */
const redisReader = (): Reader => (bytes) => {
  let [count, at] = [0, 0];
  const lineEnd = (from: number): number => bytes.indexOf("\r\n", from);
  const numberAt = (from: number, to: number): number => Number(bytes.toString("latin1", from + 1, to));
  for (;;) {
    const end = lineEnd(at);
    if (end < 0) break;
    let next = end + 2;
    for (let part = numberAt(at, end); part > 0; part--) {
      const sized = lineEnd(next);
      next = sized < 0 ? Infinity : sized + 2 + numberAt(next, sized) + 2;
    }
    if (next > bytes.length) break;
    count++;
    at = next;
  }
  return { count, taken: at };
};

const READERS = { postgres: postgresReader, redis: redisReader };

/** A proxy in front of PostgreSQL or Redis that counts the statements or commands of its clients. */
export const startCountingProxy = async (
  kind: keyof typeof READERS,
  { host, port }: { host: string; port: number },
): Promise<{ port: number; count(): number; stop(): Promise<void> }> => {
  const sockets = new Set<Socket>();
  let total = 0;
  const server = createServer((client) => {
    const upstream = connect(port, host);
    const read = READERS[kind]();
    let rest = Buffer.alloc(0);
    client.on("data", (part) => {
      const bytes = Buffer.concat([rest, part]);
      const { count, taken } = read(bytes);
      total += count;
      rest = bytes.subarray(taken);
      upstream.write(part);
    });
    upstream.on("data", (part) => client.write(part));
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(one);
      one
        .on("error", () => undefined)
        .on("close", () => {
          sockets.delete(one);
          other.destroy();
        });
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    count: () => total,
    stop: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
};
