import { once } from "node:events";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";

export type Listening = { url: string; port: number; close: () => Promise<void> };

/** A server on a free port of this machine, whose handler may come later; it ends with `close`. */
export const listen = async (server: Server): Promise<Listening> => {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const close = async (): Promise<void> => {
    server.closeAllConnections();
    server.close();
    await once(server, "close");
  };
  return { url: `http://127.0.0.1:${port}`, port, close };
};
