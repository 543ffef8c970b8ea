import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";

/** One port in front of several, as a load balancer without stickiness: connections go round in turn. */
export type Balancer = {
  url: string;
  /** Where new connections go from now on. */
  aim(ports: readonly number[]): void;
  /** Connections that are open now. */
  open(): readonly Socket[];
  close(): Promise<void>;
};

/** Balances loopback ports; a port that refuses is passed over for the next one. */
export const startBalancer = async (first: readonly number[]): Promise<Balancer> => {
  let ports = [...first];
  let turn = 0;
  const open = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (client) => {
    open.add(client);
    client.on("error", () => client.destroy());
    client.on("close", () => open.delete(client));
    attempt(client, ports.length);
  });
  const attempt = (client: Socket, tries: number): void => {
    if (tries === 0 || client.destroyed) return void client.destroy();
    const target = connect({ port: ports[turn++ % ports.length]!, host: "127.0.0.1", allowHalfOpen: true });
    const onRefused = (): void => attempt(client, tries - 1);
    target.once("error", onRefused);
    target.once("connect", () => {
      target.off("error", onRefused);
      target.on("error", () => client.destroy());
      target.on("close", () => client.destroy());
      client.on("close", () => target.destroy());
      client.pipe(target).pipe(client);
    });
  };
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  return {
    url: `http://127.0.0.1:${port}`,
    aim: (next) => {
      ports = [...next];
    },
    open: () => [...open],
    close: async () => {
      server.close();
      for (const socket of open) socket.destroy();
      await once(server, "close");
    },
  };
};
