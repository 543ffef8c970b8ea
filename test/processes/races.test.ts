import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { eventuallyHolds } from "../support/eventually.ts";
import { aKey, aTenant } from "../support/app/app.ts";
import { assertInvariants } from "../support/domain/crashing.ts";
import { type Answer, type Client, must } from "../support/http/client.ts";
import { adventureRaces, economyRaces, races, together } from "../support/races/races.ts";
import { questStepRaces, rewardRaces } from "../support/races/rewards.ts";
import { superAdminOf, twoServers, type TwoServers } from "../support/processes/two-servers.ts";
import { pluck } from "../support/pluck.ts";

const ROUNDS = 3;

describe("several at once over two processes", () => {
  let two: TwoServers;

  before(async () => {
    two = await twoServers();
  });

  for (const { name, run, isSlow = false } of [
    ...races,
    ...economyRaces,
    ...rewardRaces,
    ...adventureRaces,
    ...questStepRaces,
  ]) {
    it(name, async () => {
      for (let round = 0; round < (isSlow ? 1 : ROUNDS); round++) await run(two);
    });
  }

  it("gives one effect and one body for an idempotency key of 30", async () => {
    const [here] = two.clients;
    const { key } = await aTenant(here);
    const { id } = must(await here.post("/api/v1/players", { externalUserId: "ada" }, { key }), 201);
    const headers = { "X-Idempotency-Key": randomUUID() };
    const grant = (at: Client) => at.post(`/api/v1/players/${id}/xp`, { amount: 1 }, { key, headers });
    const answers = [...(await together(two, 30, grant)), await grant(here)];
    const good = answers.filter(({ status }) => status === 201);
    for (const answer of answers.filter(({ status }) => status !== 201)) {
      assert.deepEqual([answer.status, answer.body.error.reason], [409, "IDEMPOTENCY_IN_PROGRESS"]);
      assert.equal(answer.headers.get("retry-after"), "1");
    }
    assert.equal(new Set(good.map(({ body }) => JSON.stringify(body))).size, 1);
    assert.equal(good.filter((one) => one.headers.get("x-idempotent-replayed") === null).length, 1);
    assert.equal(must(await here.get(`/api/v1/players/${id}`, { key }), 200).xp, 1);
  });

  it("synchronises a sandbox while both sides change and evaluate", async () => {
    const [here, there] = two.clients;
    const { token, projectId, key } = await aTenant(here);
    const test = await aKey(here, { token, projectId, environment: "test" });
    const triggers = [{ kind: "EVENT", eventTypes: ["won"] }];
    const rule = { key: "won", name: "Won", triggers, actions: [{ type: "grant_xp", amount: 1 }] };
    for (const owner of [key, test]) must(await here.post("/api/v1/rules", rule, { key: owner }), 201);
    const event = { externalUserId: "ada", eventType: "won" };
    const sync = (at: Client) => at.post(`/api/v1/projects/${projectId}/sandbox/sync`, {}, { token });
    const asks: ((at: Client) => Promise<Answer>)[] = [
      sync,
      (at) => at.post("/api/v1/rules/won/publish", {}, { key }),
      (at) => at.post("/api/v1/rules/won/publish", {}, { key: test }),
      (at) => at.post("/api/v1/events?wait=true", event, { key }),
      (at) => at.post("/api/v1/events?wait=true", event, { key: test }),
    ];
    for (const answer of await together(two, 40, (at, i) => asks[i % asks.length]!(at))) must(answer, 200);
    must(await sync(here), 200);
    const shown = async (owner: string) => must(await there.get("/api/v1/rules/won", { key: owner }), 200);
    const [mine, theirs] = [await shown(key), await shown(test)];
    assert.deepEqual(
      [theirs.draft, theirs.published, theirs.status],
      [mine.draft, mine.published, mine.status],
    );
  });

  it("takes exactly what a quota of events has left: single, batches, repeated, with keys", async () => {
    const tenant = await aTenant(two.clients[0]);
    const planOverrides = { eventsPerMonth: 60, requestsPerMinute: 100_000 };
    const path = `/api/v1/superadmin/tenants/${tenant.tenantId}`;
    const admin = { token: await superAdminOf(two) };
    must(await two.clients[0].patch(path, { plan: "FREE", planOverrides }, admin), 200);
    // Nobody knows this key yet, nor with it the plan of before.
    const key = await aKey(two.clients[0], tenant);
    const send = (n: number): Promise<Answer> => {
      const client = two.clients[n % 2]!;
      const event = (name: string) => ({ externalUserId: `u${n}`, eventType: "goal", idempotencyKey: name });
      // Each second batch is sent to both processes: one of the two is a repetition.
      const group = Math.floor(n / 2);
      if (group % 2 === 0) {
        const headers = group % 4 === 0 ? { "X-Idempotency-Key": `r${group}` } : {};
        const events = [event(`a${group}`), event(`b${group}`), event(`b${group}`)].map((one) => ({
          ...one,
          externalUserId: "both",
        }));
        return client.post("/api/v1/events/batch", { events }, { key, headers });
      }
      return client.post("/api/v1/events", event(`single-${n}`), { key });
    };
    const answers = await Promise.all(Array.from({ length: 200 }, (_, n) => send(n)));
    const unexpected = answers.filter(({ status }) => ![200, 402, 409].includes(status));
    assert.deepEqual(pluck(unexpected, "body"), []);
    const fill = () =>
      two.clients[0].post("/api/v1/events", { externalUserId: "x", eventType: "goal" }, { key });
    let rounds = 0;
    for (let status = 0; status !== 402; rounds++) {
      ({ status } = await fill());
      assert.ok([200, 402].includes(status) && rounds <= 60, `${status} after ${rounds} more events`);
    }
    const { items } = must(await two.clients[1].get("/api/v1/billing/usage", { token: tenant.token }), 200);
    assert.equal(items[0].used, 60);
    const listed = must(await two.clients[1].get("/api/v1/events?limit=100", { key }), 200);
    assert.equal(listed.data.length, 60);
    assert.ok(answers.some(({ status }) => status === 402));
  });

  it("leave nothing in the queues and every invariant whole", async () => {
    await eventuallyHolds(() => assertInvariants(two.database.em), { timeoutMs: 60_000 });
  });
});
