import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

export type TcpProxy = {
  port: number;
  /** Ends every connection and refuses new ones. */
  cut(): Promise<void>;
  /** Ends every connection, and until `restore` takes new ones and closes them: nothing is behind it. */
  refuseAfterAccept(): void;
  /** Keeps connections open, takes new ones, and passes nothing on until `restore`, which ends them. */
  hang(): void;
  /**
   * Makes every connection half-open, and those that come until `restore`: both sides' data is acknowledged
   * and dropped, neither side is told that the other has closed. `restore` does not mend or end them.
   */
  halfOpen(): void;
  /** Makes every second connection of now half-open, and passes on what all others send. */
  loseSome(): void;
  /** Delays what both sides send by so many ms; 0 ends that. */
  slow(delayMs: number): void;
  /** Passes everything on again. */
  restore(): Promise<void>;
  /** Connections that are open now, half-open ones included. */
  connections(): number;
  stop(): Promise<void>;
};

type Pair = { client: Socket; upstream: Socket; isDead: boolean };

/** A proxy in front of a server that does what broken networks do. */
export const startTcpProxy = async (host: string, target: number): Promise<TcpProxy> => {
  const pairs = new Set<Pair>();
  let mode: "pass" | "hang" | "half-open" | "refuse" = "pass";
  let delayMs = 0;

  const pass = (pair: Pair, from: Socket, to: Socket): void => {
    from.on("error", () => undefined);
    from.on("data", (part) => {
      if (mode === "hang" || pair.isDead) return;
      if (delayMs === 0) return void to.write(part);
      setTimeout(() => pair.isDead || to.destroyed || to.write(part), delayMs);
    });
    from.on("close", () => {
      if (!pair.isDead) to.destroy();
      if (pair.client.destroyed && pair.upstream.destroyed) pairs.delete(pair);
    });
  };
  const server = createServer((client) => {
    if (mode === "refuse") return void client.on("error", () => undefined).destroy();
    const upstream = connect(target, host);
    const pair = { client, upstream, isDead: mode === "half-open" };
    pairs.add(pair);
    pass(pair, client, upstream);
    pass(pair, upstream, client);
  });
  const listen = async (port: number): Promise<void> => {
    server.listen(port, "127.0.0.1");
    await once(server, "listening");
  };
  await listen(0);
  const { port } = server.address() as AddressInfo;
  const endAll = (): void => {
    for (const pair of pairs) {
      pair.client.destroy();
      pair.upstream.destroy();
    }
  };
  const cut = async (): Promise<void> => {
    if (!server.listening) return;
    const closed = once(server, "close");
    server.close();
    endAll();
    await closed;
  };
  return {
    port,
    cut,
    refuseAfterAccept: () => {
      mode = "refuse";
      endAll();
    },
    hang: () => void (mode = "hang"),
    halfOpen: () => {
      mode = "half-open";
      for (const pair of pairs) pair.isDead = true;
    },
    loseSome: () => {
      let n = 0;
      for (const pair of pairs) pair.isDead ||= n++ % 2 === 0;
    },
    slow: (ms) => void (delayMs = ms),
    restore: async () => {
      // What was swallowed is gone for good: connections that missed something start anew.
      if (mode === "hang") endAll();
      mode = "pass";
      delayMs = 0;
      if (!server.listening) await listen(port);
    },
    connections: () => pairs.size,
    stop: cut,
  };
};
