// Shows what happens to a player, live: URL=… KEY=… node docs/examples/watch.mjs [externalUserId]
import { Client } from "@colyseus/sdk";

const { URL: url = "http://localhost:2567", KEY } = process.env;
// In a game your backend does this step, since the API key must not leave it.
const answer = await fetch(`${url}/api/v1/auth/ws-token`, {
  method: "POST",
  headers: { "X-API-Key": KEY, "Content-Type": "application/json" },
  body: JSON.stringify({ externalUserId: process.argv[2] ?? "ada" }),
});
if (!answer.ok) throw new Error(await answer.text());
const client = new Client(url);
client.auth.token = (await answer.json()).token;
const room = await client.joinOrCreate("player");
room.onMessage("*", (name, { data }) => console.log(name, JSON.stringify(data)));
