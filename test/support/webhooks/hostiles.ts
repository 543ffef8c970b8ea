import { once } from "node:events";
import { createServer, type RequestListener, type Server as HttpServer } from "node:http";
import { type AddressInfo, createServer as createTcpServer, type Server } from "node:net";

/** Endpoints that mistreat whoever sends to them, by what they do. */
export type Hostiles = { urls: Record<HostileKind, string>; close(): Promise<void> };
export type HostileKind =
  | "hangs"
  | "resets"
  | "answers 500"
  | "redirects"
  | "is gone"
  | "answers without end"
  | "answers a byte a second"
  | "speaks no TLS"
  | "has no name";

const CHUNK = Buffer.alloc(65_536, "x");

const endless: RequestListener = (_request, response) => {
  response.writeHead(200, { "Content-Length": String(10 * 2 ** 30) });
  const more = (): void => {
    while (!response.destroyed && response.write(CHUNK));
  };
  response.on("drain", more);
  more();
};

const dripping: RequestListener = (_request, response) => {
  response.writeHead(200);
  const timer = setInterval(() => response.write("x"), 1_000);
  response.on("close", () => clearInterval(timer));
};

const status =
  (code: number, headers: Record<string, string> = {}): RequestListener =>
  (request, response) => {
    request.resume();
    response.writeHead(code, headers).end();
  };

const portOf = async (server: Server | HttpServer): Promise<number> => {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
};

/** Starts one endpoint of each kind. */
export const startHostiles = async (): Promise<Hostiles> => {
  const servers: HttpServer[] = [];
  const http = async (listener: RequestListener): Promise<number> => {
    const server = createServer(listener);
    servers.push(server);
    return portOf(server);
  };
  const resetting = createTcpServer((socket) => {
    socket.on("error", () => undefined);
    socket.once("data", () => socket.resetAndDestroy());
  });
  const at = (port: number): string => `http://127.0.0.1:${port}/`;
  const urls: Hostiles["urls"] = {
    hangs: at(await http(() => undefined)),
    resets: at(await portOf(resetting)),
    "answers 500": at(await http(status(500))),
    redirects: at(await http(status(302, { Location: "http://127.0.0.1:1/" }))),
    "is gone": at(await http(status(410))),
    "answers without end": at(await http(endless)),
    "answers a byte a second": at(await http(dripping)),
    "speaks no TLS": `https://127.0.0.1:${await http(status(200))}/`,
    "has no name": "https://nobody.invalid/",
  };
  return {
    urls,
    close: async () => {
      for (const server of servers) {
        server.closeAllConnections();
        server.close();
      }
      resetting.close();
    },
  };
};
