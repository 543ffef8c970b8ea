import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { aKey, aTenant, type Tenant } from "../support/app/app.ts";
import { anAddress, type Answer, must } from "../support/http/client.ts";
import { superAdminOf, twoServers, type TwoServers } from "../support/processes/two-servers.ts";

/** Requests in flight at once. */
const WIDE = 100;

describe("limits asked for three times over, by two processes at once, let just so many pass", () => {
  let two: TwoServers;
  let admin: string;
  let tenant: Tenant;
  before(async () => {
    two = await twoServers();
    admin = await superAdminOf(two);
    tenant = await aTenant(two.clients[0]);
  });

  const limit = (requestsPerMinute: number): Promise<Answer> => {
    const path = `/api/v1/superadmin/tenants/${tenant.tenantId}`;
    const body = { plan: "PRO", planOverrides: { requestsPerMinute } };
    return two.clients[0].patch(path, body, { token: admin });
  };

  const ask = async (times: number, one: (i: number) => Promise<Answer>): Promise<Answer[]> => {
    const answers: Answer[] = [];
    for (let i = 0; i < times; i += WIDE) {
      const part = Array.from({ length: Math.min(WIDE, times - i) }, (_, at) => one(i + at));
      answers.push(...(await Promise.all(part)));
    }
    return answers;
  };
  const numberOf = ({ headers }: Answer, name: string): number => Number(headers.get(name));

  /** `used` of the window were spent before. */
  const isExact = (answers: readonly Answer[], points: number, reason: string): void => {
    const passed = answers.filter(({ status }) => status !== 429);
    const refused = answers.filter(({ status }) => status === 429);
    assert.equal(passed.length, points);
    const left = passed.map((answer) => numberOf(answer, "x-ratelimit-remaining"));
    assert.deepEqual(
      left.toSorted((a, b) => b - a),
      Array.from({ length: points }, (_, i) => points - 1 - i),
      "each request has a number of its own",
    );
    const resets = answers.map((answer) => numberOf(answer, "x-ratelimit-reset"));
    assert.ok(Math.max(...resets) - Math.min(...resets) <= 1, "one window");
    for (const answer of refused) {
      assert.deepEqual([answer.body.error.reason, numberOf(answer, "x-ratelimit-remaining")], [reason, 0]);
      const nowSeconds = Date.parse(answer.body.error.timestamp as string) / 1_000;
      const wait = numberOf(answer, "retry-after");
      assert.ok(wait >= 1 && Math.abs(nowSeconds + wait - numberOf(answer, "x-ratelimit-reset")) <= 2);
    }
    for (const answer of answers) assert.equal(numberOf(answer, "x-ratelimit-limit"), points);
  };
  const at = (i: number) => two.clients[i % 2]!;

  it("those of a project, whichever of its keys is used, batches as one, paths in any form", async () => {
    const points = 150;
    must(await limit(points), 200);
    const { token, projectId, key } = tenant;
    const keys = [key, await aKey(two.clients[0], { token, projectId })];
    keys.push(await aKey(two.clients[0], { token, projectId, environment: "test" }));
    const events = Array.from({ length: 20 }, () => ({ externalUserId: "ann", eventType: "seen" }));
    const forms = [
      (i: number, who: { key: string }) => at(i).get("/api/v1/players", who),
      (i: number, who: { key: string }) => at(i).get("/v1/players/", who),
      (i: number, who: { key: string }) => at(i).get("/players?limit=1", who),
      (i: number, who: { key: string }) => at(i).get(`/api/v1/players/${randomUUID()}`, who),
      (i: number, who: { key: string }) => at(i).get("/api/v1/players?limit=none", who),
      (i: number, who: { key: string }) => at(i).post("/api/v1/events/batch", { events }, who),
      (i: number, who: { key: string }) => at(i).post("/api/v1/events", "not JSON", who),
      (i: number, who: { key: string }) => at(i).get("/api/v1/tenant", who),
    ];
    const answers = await ask(3 * points, (i) => forms[i % forms.length]!(i, { key: keys[i % 3]! }));
    isExact(answers, points, "PROJECT_RATE");
  });

  it("those of a user", async () => {
    const other = await aTenant(two.clients[0]);
    const { userId, token } = await two.member(other, "VIEWER");
    assert.ok(userId);
    isExact(await ask(1_800, (i) => at(i).get("/api/v1/projects", { token })), 600, "USER_RATE");
  });

  it("those of an address without credentials", async () => {
    const headers = { "X-Forwarded-For": anAddress() };
    const paths = ["/api/v1/limits", "/limits/", "/api/v1/players", "/api/v1/blog-posts", "/v1/tenant"];
    isExact(await ask(900, (i) => at(i).get(paths[i % 5]!, { headers })), 300, "IP_RATE");
  });

  it("those of registrations", async () => {
    const headers = { "X-Forwarded-For": anAddress() };
    const one = (i: number) => {
      const body = {
        email: `${randomUUID()}@example.com`,
        password: "Correct-horse-7",
        name: "Ada Lovelace",
      };
      return at(i).post("/api/v1/auth/register", i % 3 === 0 ? {} : body, { headers });
    };
    isExact(await ask(15, one), 5, "REGISTRATION_RATE");
  });
});
