#!/usr/bin/env bash
# dns2 3.1.1: a TXT answer given as one text of more than 255 bytes is not cut into pieces, as DNS has to do it: its
# length is written in one byte and wraps around, without an error at the server. Node's resolver refuses the whole
# message as malformed. A DKIM key of 2,048 bits has some 400 characters, so a name server or a stand-in for one in
# tests works with short records and fails with real ones. Given as an array of shorter texts, all of it arrives.
# Guess: the text arrives whole, in pieces of at most 255 bytes; at worst the server's own code refuses it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --save-exact dns2@3.1.1
cat >look.mjs <<'JS'
import { Resolver } from "node:dns/promises";
import { readFileSync } from "node:fs";
import dns2 from "dns2";

const { version } = JSON.parse(readFileSync("node_modules/dns2/package.json", "utf8"));
console.log(`dns2 ${version}, Node ${process.version}`);
const { Packet } = dns2;
const readBack = async (data) => {
  const handle = (request, send) => {
    const response = Packet.createResponseFromRequest(request);
    const { name } = request.questions[0];
    response.answers.push({ name, type: Packet.TYPE.TXT, class: Packet.CLASS.IN, ttl: 60, data });
    send(response);
  };
  const server = dns2.createServer({ udp: true, handle });
  await server.listen({ udp: { port: 0, address: "127.0.0.1" } });
  const resolver = new Resolver({ timeout: 2000, tries: 1 });
  resolver.setServers([`127.0.0.1:${server.addresses().udp.port}`]);
  const lengths = (records) => records.map((pieces) => pieces.map(({ length }) => length).join("+")).join();
  const seen = await resolver.resolveTxt("key.example").then(lengths, ({ code }) => code);
  await server.close();
  return seen;
};
const text = `v=DKIM1; p=${"A".repeat(389)}`;
const pieces = [text.slice(0, 255), text.slice(255)];
const seen = [await readBack(pieces[0]), await readBack(text), await readBack(pieces)];
console.log("guess: one text of 400 characters arrives as 255+145");
console.log(`seen:  ${seen[1]}; one of 255 as ${seen[0]}; an array of two pieces as ${seen[2]}`);
process.exit(seen.join(" ") === "255 EBADRESP 255+145" ? 0 : 1);
JS
node look.mjs
