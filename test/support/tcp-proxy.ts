import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

export type TcpProxy = {
  port: number;
  /** Ends every connection and refuses new ones. */
  cut(): Promise<void>;
  /** Keeps connections open, takes new ones, and passes nothing on. */
  hang(): void;
  /** Passes everything on again. */
  restore(): Promise<void>;
  stop(): Promise<void>;
};

/** A proxy in front of a server that does what broken networks do. */
export const startTcpProxy = async (host: string, target: number): Promise<TcpProxy> => {
  const sockets = new Set<Socket>();
  let isHanging = false;
  const server = createServer((client) => {
    const upstream = connect(target, host);
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(socket);
      socket.on("error", () => undefined);
      socket.on("data", (part) => void (isHanging || other.write(part)));
      socket.on("close", () => {
        sockets.delete(socket);
        other.destroy();
      });
    }
  });
  const listen = async (port: number): Promise<void> => {
    server.listen(port, "127.0.0.1");
    await once(server, "listening");
  };
  await listen(0);
  const { port } = server.address() as AddressInfo;
  const cut = async (): Promise<void> => {
    if (!server.listening) return;
    const closed = once(server, "close");
    server.close();
    for (const socket of sockets) socket.destroy();
    await closed;
  };
  return {
    port,
    cut,
    hang: () => void (isHanging = true),
    restore: async () => {
      // What was swallowed is gone for good: connections that missed something start anew.
      if (isHanging) for (const socket of sockets) socket.destroy();
      isHanging = false;
      if (!server.listening) await listen(port);
    },
    stop: cut,
  };
};
