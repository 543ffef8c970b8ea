import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Webhook } from "standardwebhooks";
import { aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { eventually } from "../support/eventually.ts";
import { freePort, type Laurel, laurel, temporaryDir } from "../support/processes/process.ts";
import { startTcpProxy } from "../support/faults/tcp-proxy.ts";
import { isSigned, type Received, type Receiver, startReceiver } from "../support/webhooks/receiver.ts";

const WITHIN = { timeoutMs: 60_000 };
const SECRET = `whsec_${Buffer.from("twenty-four bytes of a key").toString("base64")}`;

type Event = { id: string; type: string; data: Record<string, unknown> };
const eventOf = ({ body }: Received): Event => JSON.parse(body.toString()) as Event;

describe("laurel listen", () => {
  let api: TestApp;
  let tenant: Tenant;
  let receiver: Receiver;
  let answer: (status: number) => void;
  const started: Laurel[] = [];

  before(async () => {
    api = await startApp();
  });
  beforeEach(async () => {
    tenant = await aTenant(api);
    let status = 200;
    answer = (next) => void (status = next);
    receiver = await startReceiver((response) => {
      // 0: it hangs.
      if (status > 0) response.writeHead(status).end("so");
    });
  });
  afterEach(async () => {
    for (const { child } of started.splice(0)) child.kill("SIGKILL");
    await receiver.close();
  });

  /** Starts it and waits until it listens. */
  const listen = async (...args: string[]): Promise<Laurel> => {
    const one = laurel(["listen", "--key", tenant.key, "--url", api.url, ...args]);
    started.push(one);
    await eventually(() => /^ready/m.test(one.output()), { ...WITHIN, label: "it listens" });
    return one;
  };
  const interrupt = async ({ child, ended, output }: Laurel): Promise<void> => {
    child.kill("SIGINT");
    assert.equal(await ended, 0, output());
  };
  const aPlayer = async (): Promise<string> => {
    const externalUserId = `user-${crypto.randomUUID()}`;
    must(await api.post("/api/v1/players", { externalUserId }, { key: tenant.key }), 201);
    return externalUserId;
  };
  const arrived = async (count: number): Promise<Received[]> => {
    await eventually(() => receiver.received.length >= count, { ...WITHIN, label: `${count} arrived` });
    return receiver.received;
  };
  const saw = (one: Laurel, pattern: RegExp): Promise<boolean> =>
    eventually(() => pattern.test(one.output()), { ...WITHIN, label: `it says ${pattern}` });

  it("posts what happens from then on in its order, signed as webhooks are", async () => {
    const feed = async () => must(await api.get("/api/v1/webhook-events", { key: tenant.key }), 200).data;
    await feed();
    await aPlayer();
    await eventually(async () => (await feed()).length === 1, WITHIN);
    const one = await listen("--forward", `${receiver.url}/hook`, "--secret", SECRET);
    const user = await aPlayer();
    const grant = { amount: 5 };
    must(await api.post(`/api/v1/players/ext:${user}/xp`, grant, { key: tenant.key }), 201);
    const received = await arrived(2);
    const events = received.map(eventOf);
    assert.deepEqual(
      events.map(({ type, data }) => [type, data["externalUserId"]]),
      [
        ["player.created", user],
        ["player.xp_granted", user],
      ],
    );
    for (const [at, { path, headers, body }] of received.entries()) {
      assert.ok(isSigned(received[at]!, SECRET));
      new Webhook(SECRET).verify(body, headers as Record<string, string>);
      const { id, type } = events[at]!;
      assert.deepEqual(
        [path, headers["webhook-id"], headers["x-service-event"], headers["x-service-attempt"]],
        ["/hook", id, type, "1"],
      );
      assert.match(String(headers["user-agent"]), /^Laurel-Webhooks\//);
      await saw(one, new RegExp(`^${type} ${id} -> 200 \\(\\d+ ms\\)$`, "m"));
    }
    await interrupt(one);
    assert.equal(receiver.received.length, 2);
  });

  it("makes a secret and shows it, where none is given", async () => {
    const one = await listen("--forward", receiver.url);
    const [, secret] = /^signing with (whsec_\S+)$/m.exec(one.output())!;
    await aPlayer();
    const [received] = await arrived(1);
    assert.ok(isSigned(received!, secret!));
    await interrupt(one);
  });

  it("shows chosen types alone, as JSON lines for other programs", async () => {
    const one = await listen("--json", "--events", "player.xp_granted, lobby.*");
    let output = "";
    one.child.stdout!.on("data", (part: Buffer) => (output += part.toString()));
    const user = await aPlayer();
    for (const amount of [1, 2])
      must(await api.post(`/api/v1/players/ext:${user}/xp`, { amount }, { key: tenant.key }), 201);
    await eventually(() => output.split("\n").length > 2, WITHIN);
    await interrupt(one);
    const events = output
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as Event);
    assert.deepEqual(
      events.map(({ type, data }) => [type, data["amount"]]),
      [
        ["player.xp_granted", 1],
        ["player.xp_granted", 2],
      ],
    );
  });

  it("tells what became of each event, and goes on when the receiver fails", async () => {
    const one = await listen("--forward", receiver.url);
    answer(503);
    await aPlayer();
    await saw(one, /^player\.created \S+ -> 503 /m);
    const gone = await listen("--forward", `http://127.0.0.1:${await freePort()}`);
    answer(200);
    await aPlayer();
    await saw(gone, /^player\.created \S+ -> failed: ECONNREFUSED$/m);
    await saw(one, /^player\.created \S+ -> 200 /m);
    await interrupt(one);
    await interrupt(gone);
  });

  it("ends at once although the receiver hangs", async () => {
    answer(0);
    const one = await listen("--forward", receiver.url);
    for (let i = 0; i < 3; i++) await aPlayer();
    await arrived(1);
    await interrupt(one);
    assert.equal(receiver.received.length, 1);
  });

  it("waits for a server that is away, and misses nothing that happens meanwhile", async () => {
    const proxy = await startTcpProxy("127.0.0.1", api.port);
    try {
      const one = await listen("--forward", receiver.url, "--url", `http://127.0.0.1:${proxy.port}/api/v1`);
      const users = [await aPlayer()];
      await arrived(1);
      await proxy.cut();
      await saw(one, /^waiting: no answer from \S+: is the server running\?$/m);
      for (let i = 0; i < 3; i++) users.push(await aPlayer());
      assert.equal(receiver.received.length, 1);
      await proxy.restore();
      await arrived(4);
      users.push(await aPlayer());
      const events = (await arrived(5)).map(eventOf);
      assert.deepEqual(events.map(({ data }) => data["externalUserId"]).toSorted(), users.toSorted());
      assert.equal(one.output().match(/^waiting/gm)!.length, 1);
      assert.match(one.output(), /^the server is back$/m);
      await interrupt(one);
    } finally {
      await proxy.stop();
    }
  });

  it("takes the key from a file too", async () => {
    const directory = await temporaryDir();
    const file = join(directory.path, "key");
    writeFileSync(file, `${tenant.key}\n`);
    const one = laurel(["listen", "--key-file", file, "--url", api.url]);
    started.push(one);
    await saw(one, /^ready/m);
    await interrupt(one);
    await directory.remove();
  });
});
