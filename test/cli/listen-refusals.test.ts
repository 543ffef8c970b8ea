import assert from "node:assert/strict";
import { aKey, aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { eventually } from "../support/eventually.ts";
import { putOnPlan } from "../support/app/plans.ts";
import { freePort, laurel } from "../support/processes/process.ts";
import { startReceiver } from "../support/webhooks/receiver.ts";

const run = async (...args: string[]): Promise<[code: number | string, text: string]> => {
  const { ended, output } = laurel(args);
  return [await ended, output().trim()];
};

describe("laurel listen and laurel trigger", () => {
  let api: TestApp;
  let tenant: Tenant;
  before(async () => {
    api = await startApp();
    tenant = await aTenant(api);
  });

  const listen = (key: string, ...more: string[]) => run("listen", "--key", key, "--url", api.url, ...more);
  const trigger = (type: string, key = tenant.key, ...more: string[]) =>
    run("trigger", type, "--key", key, "--url", api.url, ...more);

  it("end with 1 and name what is wrong when the server refuses", async () => {
    assert.deepEqual(await listen("svc_live_wrong"), [
      1,
      "error: 401 API_KEY_INVALID The API key is unknown " +
        "(check --key: a project's key begins with svc_live_ or svc_test_)",
    ]);
    const key = await aKey(api, { ...tenant, scopes: ["events:write"] });
    for (const [refused, scope] of [
      [await listen(key), "webhooks:read"],
      [await trigger("player.level_up", key), "webhooks:write"],
    ] as const) {
      assert.equal(refused[0], 1);
      assert.match(refused[1], new RegExp(`^error: 403 INSUFFICIENT_SCOPE .*${scope}`));
    }
    const [code, text] = await listen(tenant.key, "--events", "player.created,no.such");
    assert.equal(code, 1);
    assert.match(text, /^error: 400 .*unknown event type no\.such: see GET \/webhooks\/event-types$/);
  });

  it("end with 1 on a plan without webhooks", async () => {
    const free = await aTenant(api);
    await putOnPlan(api, free.tenantId, "FREE");
    const isRefused = async () => (await api.get("/api/v1/webhook-events", { key: free.key })).status === 402;
    await eventually(isRefused);
    for (const [code, text] of [await listen(free.key), await trigger("player.level_up", free.key)]) {
      assert.equal(code, 1);
      assert.match(text, /^error: 402 PLAN_FEATURE_UNAVAILABLE /);
    }
  });

  it("end with 1 where no Laurel is, and give their key to nobody else", async () => {
    const other = await startReceiver();
    const door = await startReceiver((response) =>
      response.writeHead(301, { location: `${other.url}/elsewhere` }).end(),
    );
    const at = (url: string) => run("listen", "--key", tenant.key, "--url", url);
    const [code, text] = await at(other.url);
    assert.equal(code, 1);
    assert.match(text, /^error: the server answered 200, and not as Laurel does: check --url$/);
    const seen = other.received.length;
    const [redirected, told] = await at(door.url);
    assert.equal(redirected, 1);
    assert.match(told, /redirects to \S+elsewhere: use that address as --url$/);
    assert.equal(other.received.length, seen);
    await other.close();
    await door.close();
  });

  it("end with 2 when they are misused", async () => {
    const { key } = tenant;
    const misuses: [args: string[], told: RegExp][] = [
      [["listen"], /an API key is needed: --key svc_live_… or --key-file FILE/],
      [["listen", "--key-file", "/nowhere"], /cannot read \/nowhere/],
      [["listen", "--key", key, "--url", "ftp://a"], /--url must be an http or https address/],
      [["listen", "--key", key, "--forward", "localhost:9000"], /--forward must be an http or https address/],
      [["listen", "--key", key, "--forward", "http://a", "--secret", ""], /--secret must not be empty/],
      [["listen", "--bogus"], /Usage: laurel listen/],
      [["trigger", "--key", key], /Usage: laurel trigger/],
      [["trigger", "player.level_up"], /an API key is needed/],
    ];
    for (const [args, told] of misuses) {
      const [code, text] = await run(...args);
      assert.equal(code, 2, `${args.join(" ")}: ${text}`);
      assert.match(text, told);
    }
  });

  it("meet: what the one makes is in the feed that the other reads, as a test", async () => {
    const receiver = await startReceiver();
    const body = { url: receiver.url, events: ["player.badge_earned"] };
    must(await api.post("/api/v1/webhooks", body, { token: tenant.token }), 201);
    const forwarded = await startReceiver();
    const args = ["--key", tenant.key, "--url", api.url, "--forward", forwarded.url];
    const listening = laurel(["listen", ...args]);
    const WITHIN = { timeoutMs: 60_000 };
    await eventually(() => listening.output().includes("ready"), WITHIN);
    const [code, text] = await trigger("player.badge_earned");
    assert.equal(code, 0, text);
    const [, id] = /^player\.badge_earned (\S+): in the feed, and on its way to 1 webhook$/.exec(text)!;
    for (const one of [forwarded, receiver]) {
      await eventually(() => one.received.length === 1, WITHIN);
      const event = JSON.parse(one.received[0]!.body.toString());
      assert.deepEqual([event.id, event.type, event.data.test], [id, "player.badge_earned", true]);
    }
    const [own, said] = await trigger("custom.order.paid");
    assert.equal(own, 0, said);
    assert.match(said, /^custom\.order\.paid \S+: in the feed, and on its way to 0 webhooks$/);
    listening.child.kill("SIGINT");
    assert.equal(await listening.ended, 0);
    await receiver.close();
    await forwarded.close();
  });

  it("end with 1 for a type that there is not, or not yet, and when no server answers", async () => {
    for (const [type, reason] of [
      ["no.such", "unknown event type no.such"],
      ["raffle.drawn", "raffle.drawn is not available yet"],
    ] as const) {
      const [refused, why] = await trigger(type);
      assert.equal(refused, 1);
      assert.match(why, new RegExp(`^error: 400 .*${reason}: see GET`));
    }
    const url = `http://127.0.0.1:${await freePort()}`;
    const [code, text] = await run("trigger", "player.level_up", "--key", tenant.key, "--url", url);
    assert.equal(code, 1);
    assert.equal(text, `error: no answer from ${url}: is the server running?`);
  });
});
