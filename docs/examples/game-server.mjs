// Serves game.html, and tokens for its players: URL=… KEY=… node docs/examples/game-server.mjs [port]
// Then open http://localhost:8080/?player=ada in one browser and …?player=bo in another.
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";

const { URL: url = "http://localhost:2567", KEY } = process.env;
const here = import.meta.dirname;
const sdk = join(here, "../../node_modules/@colyseus/sdk/dist/colyseus.js");
const files = {
  "/": [join(here, "game.html"), "text/html"],
  "/game.mjs": [join(here, "game.mjs"), "text/javascript"],
  "/stay.mjs": [join(here, "stay.mjs"), "text/javascript"],
  "/colyseus.js": [sdk, "text/javascript"],
};

/** The part of your backend that knows who is asking: here it believes what it is told. */
const fetchToken = async (externalUserId) => {
  const answer = await fetch(`${url}/api/v1/auth/ws-token`, {
    method: "POST",
    headers: { "X-API-Key": KEY, "Content-Type": "application/json" },
    body: JSON.stringify({ externalUserId }),
  });
  return { status: answer.status, body: JSON.stringify({ ...(await answer.json()), url }) };
};

const serve = async (request, response) => {
  const { pathname, searchParams } = new globalThis.URL(request.url, "http://localhost");
  if (pathname === "/token") {
    const { status, body } = await fetchToken(searchParams.get("player"));
    return response.writeHead(status, { "Content-Type": "application/json" }).end(body);
  }
  const [file, type] = files[pathname] ?? [];
  if (!file) return response.writeHead(404).end();
  return response.writeHead(200, { "Content-Type": type }).end(await readFile(file));
};

createServer((request, response) => {
  serve(request, response).catch((error) => response.writeHead(500).end(String(error)));
}).listen(Number(process.argv[2] ?? 8080), "127.0.0.1", function () {
  console.log(`http://localhost:${this.address().port}/?player=ada`);
});
