// Endpoints in one process: `/ok/…` answers 200 at once, `/hang/…` never.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

const server = createServer((request, response) => {
  request.resume();
  if (request.url?.startsWith("/hang")) return;
  request.on("end", () => void response.end("ok"));
});
server.keepAliveTimeout = 60_000;
// All addresses of this machine, of which 127.0.0.0/8 has many.
server.listen(0, "0.0.0.0", () => process.send?.((server.address() as AddressInfo).port));
process.on("disconnect", () => process.exit(0));
