import assert from "node:assert/strict";
import type { OutboundSettings } from "../../src/config/sections.ts";
import type { WebhookOutcome } from "../../src/domain/delivery/webhooks/delivering/sender.ts";
import { createWebhookSender } from "../../src/platform/webhook-sender.ts";
import { type Certificate, selfSigned } from "../support/webhooks/receiver.ts";
import { type DnsServer, startDnsServer } from "../support/webhooks/dns-server.ts";
import { connectionsBegunBy, type RawEndpoint, startRawEndpoint } from "../support/webhooks/raw-endpoint.ts";

const REFUSED = "the address is not public (URL_NOT_ALLOWED)";
const PUBLIC = "203.0.114.7";
const ADDRESS = "127.0.0.1";

/** Answers by the first label of a name. */
const ZONE: Record<string, Record<"A" | "AAAA", readonly string[] | "NXDOMAIN" | "SERVFAIL" | "SILENCE">> = {
  private: { A: ["10.0.0.1"], AAAA: [] },
  loopback: { A: [ADDRESS], AAAA: [] },
  loopback6: { A: [], AAAA: ["::1"] },
  metadata: { A: ["169.254.169.254"], AAAA: [] },
  mapped: { A: [], AAAA: ["::ffff:127.0.0.1"] },
  mixed: { A: [PUBLIC, ADDRESS], AAAA: [] },
  "mixed-back": { A: [ADDRESS, PUBLIC], AAAA: [] },
  "mixed-families": { A: [PUBLIC], AAAA: ["::1"] },
  hook: { A: [ADDRESS], AAAA: [] },
  "no-answer-for-6": { A: [ADDRESS], AAAA: "SILENCE" },
  gone: { A: "NXDOMAIN", AAAA: "NXDOMAIN" },
  empty: { A: [], AAAA: [] },
  broken: { A: "SERVFAIL", AAAA: "SERVFAIL" },
  "broken-6": { A: [ADDRESS], AAAA: "SERVFAIL" },
  silent: { A: "SILENCE", AAAA: "SILENCE" },
};

describe("a sender of webhooks to names", () => {
  let dns: DnsServer;
  let endpoint: RawEndpoint;
  let certificate: Certificate;

  before(async () => {
    certificate = selfSigned({ names: ["*.example.com"] });
    endpoint = await startRawEndpoint(undefined, { certificate });
    dns = await startDnsServer((name, family, count) => {
      const label = name.split(".")[0] ?? "";
      // Public to whoever looks first, then this machine.
      if (label === "rebinding") return family === "AAAA" ? [] : count === 1 ? [PUBLIC] : [ADDRESS];
      // The other way round: what was checked is what has to be reached.
      if (label === "settling") return family === "AAAA" ? [] : count === 1 ? [ADDRESS] : ["10.9.9.9"];
      return ZONE[label]?.[family] ?? "NXDOMAIN";
    });
  });
  after(async () => {
    await dns.close();
    await endpoint.close();
  });

  const senderWith = (settings: Partial<OutboundSettings> = {}, ca = certificate.cert) =>
    createWebhookSender(
      { allowCidrs: [], ports: [endpoint.port], allowLocal: false, ...settings },
      { dnsServers: [dns.address], ca },
    );
  const ALLOWED = { allowCidrs: ["127.0.0.1/32"] };
  const urlOf = (label: string): string => `https://${label}.example.com:${endpoint.port}/hook`;
  const sendTo = (
    label: string,
    { settings = {}, timeoutMs = 5_000 }: { settings?: Partial<OutboundSettings>; timeoutMs?: number } = {},
  ): Promise<WebhookOutcome> =>
    senderWith(settings).send({ url: urlOf(label), headers: {}, body: "{}", timeoutMs });

  it("reaches those whose addresses are allowed", async () => {
    for (const label of ["hook", "broken-6"]) {
      const outcome = await sendTo(label, { settings: ALLOWED });
      assert.deepEqual([outcome.isSuccess, outcome.error], [true, null], label);
    }
    assert.equal(endpoint.requests.at(-1)?.headers["host"], `broken-6.example.com:${endpoint.port}`);
    assert.ok(
      dns.questions.includes("hook.example.com A") && dns.questions.includes("hook.example.com AAAA"),
    );
  });

  it("connects to none of those that have an address which is not public, however few of them", async () => {
    const earlier = endpoint.connections;
    for (const label of Object.keys(ZONE).filter((one) =>
      /private|loopback|metadata|mapped|mixed/.test(one),
    )) {
      const begun = await connectionsBegunBy(async () => {
        const outcome = await sendTo(label);
        assert.deepEqual([outcome.error, outcome.isRefused], [REFUSED, true], label);
      });
      assert.equal(begun, 0, label);
      assert.equal(await senderWith().check(urlOf(label)), "is not public", label);
    }
    assert.equal(endpoint.connections, earlier);
  });

  it("connects to what was checked, although the name has another address at the next look", async () => {
    const earlier = endpoint.connections;
    const sender = senderWith();
    // What a check before the request sees is public …
    assert.equal(await sender.check(urlOf("rebinding")), undefined);
    // … and at each attempt the name is judged again.
    for (let i = 0; i < 3; i += 1) {
      const begun = await connectionsBegunBy(async () => {
        const { error, isRefused } = await sendTo("rebinding");
        assert.deepEqual([error, isRefused], [REFUSED, true]);
      });
      assert.equal(begun, 0);
    }
    assert.equal(endpoint.connections, earlier);

    const settling = senderWith(ALLOWED);
    const request = { url: urlOf("settling"), headers: {}, body: "{}", timeoutMs: 5_000 };
    assert.equal((await settling.send(request)).isSuccess, true);
    assert.equal(dns.questions.filter((one) => one === "settling.example.com A").length, 1);
    // Over the connection that is there; a new one is refused.
    assert.equal((await settling.send(request)).isSuccess, true);
    assert.equal((await senderWith(ALLOWED).send(request)).error, REFUSED);
    await settling.close();
  });

  it("checks the address that it has reached, before it says anything", async () => {
    // The system takes 0.0.0.0 for this machine: what is allowed here is the one and not the other.
    const plain = await startRawEndpoint();
    const url = `http://0.0.0.0:${plain.port}/`;
    const request = { url, headers: {}, body: "{}", timeoutMs: 5_000 };
    const sender = createWebhookSender({
      allowCidrs: ["0.0.0.0/32", "127.0.0.1/32"],
      ports: [],
      allowLocal: true,
    });
    assert.equal((await sender.send(request)).isSuccess, true);
    await sender.close();
    const tls = `https://0.0.0.0:${endpoint.port}/`;
    const strict = senderWith({ allowCidrs: ["0.0.0.0/32"] });
    const begun = await connectionsBegunBy(async () => {
      const { error, isRefused } = await strict.send({ ...request, url: tls });
      assert.deepEqual([error, isRefused], [REFUSED, true]);
    });
    assert.equal(begun, 1, "it was connected, and closed");
    await plain.close();
  });

  it("says which names cannot be resolved", async () => {
    for (const [label, error] of [
      ["gone", "the name could not be resolved: there is no such name"],
      ["empty", "the name could not be resolved: it has no address"],
      ["broken", "the name could not be resolved: its DNS servers give no answer"],
    ] as const) {
      const outcome = await sendTo(label, { settings: ALLOWED });
      assert.deepEqual([outcome.error, outcome.isRefused, outcome.isSuccess], [error, false, false]);
      // It may be there tomorrow.
      assert.equal(await senderWith().check(urlOf(label)), undefined);
    }
  });

  it("waits for silent servers no longer than it is told, and not at all for the second family", async () => {
    const outcome = await sendTo("silent", { timeoutMs: 400 });
    assert.equal(outcome.error, "no complete response within 0.4 s");
    const one = await sendTo("no-answer-for-6", { settings: ALLOWED, timeoutMs: 4_000 });
    assert.deepEqual([one.isSuccess, one.error], [true, null]);
  });

  it("knows localhost and the names of this machine in development alone", async () => {
    const plain = await startRawEndpoint();
    for (const host of ["localhost", "laurel.localhost"]) {
      const url = `http://${host}:${plain.port}/`;
      const request = { url, headers: {}, body: "{}", timeoutMs: 5_000 };
      assert.equal((await senderWith({ allowLocal: true }).send(request)).isSuccess, true);
      assert.equal((await senderWith().send(request)).isRefused, true);
    }
    await plain.close();
  });
});
