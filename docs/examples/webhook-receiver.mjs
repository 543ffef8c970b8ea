// Receives webhooks: SECRET=whsec_… PORT=9000 node docs/examples/webhook-receiver.mjs
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

const { SECRET, PORT = "9000" } = process.env;
const seen = new Set();

const isSigned = (body, header = "") => {
  const wanted = Buffer.from(`sha256=${createHmac("sha256", SECRET).update(body).digest("hex")}`);
  const given = Buffer.from(header);
  return given.length === wanted.length && timingSafeEqual(given, wanted);
};

const receive = async (request, response) => {
  const body = Buffer.concat(await request.toArray());
  if (!isSigned(body, request.headers["x-service-signature"])) return response.writeHead(401).end();
  const event = JSON.parse(body);
  // The same event may come again: its id says so. A real receiver keeps the ids where it keeps its data.
  if (!seen.has(event.id)) console.log(event.type, JSON.stringify(event.data));
  seen.add(event.id);
  response.end();
};

createServer((request, response) => void receive(request, response)).listen(Number(PORT), () =>
  console.log("ready"),
);
