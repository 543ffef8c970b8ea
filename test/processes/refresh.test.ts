import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { type KyselyPlugin, type QueryId, RawNode, sql } from "kysely";
import { newRefreshToken } from "../../src/domain/accounts/auth/refresh-tokens.ts";
import { refresh } from "../../src/domain/accounts/auth/refresh.ts";
import { createTokens } from "../../src/domain/accounts/auth/tokens.ts";
import { createTransact } from "../../src/domain/kernel/transact.ts";
import type { Transact } from "../../src/domain/kernel/work.ts";
import { NO_WAKE_UPS } from "../../src/domain/kernel/wake-ups.ts";
import type { Database } from "../../src/platform/database.ts";
import { createLimiter } from "../../src/platform/limiter.ts";
import { aTenant, type Tenant } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { type Client, must } from "../support/http/client.ts";
import { eventuallyHolds } from "../support/eventually.ts";
import { startTwoServers, type TwoServers } from "../support/processes/two-servers.ts";

const AT_ONCE = 20;

describe("sessions over two processes", () => {
  let two: TwoServers;
  let clients: readonly [Client, Client];
  let database: Database;
  let tenant: Tenant;

  before(async () => {
    two = await startTwoServers({ poolMax: AT_ONCE });
    ({ clients, database } = two);
    tenant = await aTenant(clients[0]);
  });
  after(() => two?.stop());

  const login = async () => {
    const { email, password } = tenant;
    return must(await clients[0].post("/api/v1/auth/login", { email, password }), 200);
  };
  const refreshAt = (client: Client, refreshToken: string) =>
    client.post("/api/v1/auth/refresh", { refreshToken });
  const transact = (): Transact =>
    createTransact({
      em: database.em,
      clock: () => new Date(),
      wakeUps: NO_WAKE_UPS,
      onError: (error) => assert.fail(String(error)),
    });

  /** Counts the rows that statements with `text` have given. */
  const rowsOf = (text: string): { plugin: KyselyPlugin; count: () => number } => {
    let rows = 0;
    const watched = new WeakSet<QueryId>();
    const plugin: KyselyPlugin = {
      transformQuery: ({ node, queryId }) => {
        if (RawNode.is(node) && node.sqlFragments.join("").includes(text)) watched.add(queryId);
        return node;
      },
      transformResult: async ({ result, queryId }) => {
        if (watched.has(queryId)) rows += result.rows.length;
        return result;
      },
    };
    return { plugin, count: () => rows };
  };

  it("a refresh token used by twenty at once is used up by one; the others are in its grace", async () => {
    const { privateKey } = generateKeyPairSync("ed25519");
    const clock = () => new Date();
    const tokens = createTokens({ privateKey, issuer: "http://localhost", clock });
    for (let round = 0; round < 5; round++) {
      const { refreshToken } = await login();
      const winners = rowsOf("update refresh_tokens");
      const watched: Transact = (run) =>
        transact()((work) => run({ ...work, db: work.db.withPlugin(winners.plugin) }));
      const parts = { transact: watched, tokens, limiter: createLimiter(), clock };
      const answers = await Promise.all(
        Array.from({ length: AT_ONCE }, () => refresh(parts, { refreshToken, deviceToken: "" })),
      );
      assert.equal(winners.count(), 1);
      assert.equal(new Set(answers.map(({ signedIn }) => signedIn.refreshToken)).size, AT_ONCE);
    }
  });

  it("twenty at once later than the grace are all refused, and end the session once", async () => {
    const { refreshToken, user } = await login();
    const newest = must(await refreshAt(clients[1], refreshToken), 200);
    await transact()(({ db }) =>
      sql`update refresh_tokens set used_at = used_at - interval '31 seconds'
        where used_at is not null`.execute(db),
    );
    const answers = await Promise.all(
      Array.from({ length: AT_ONCE }, (_, i) => refreshAt(clients[i % 2]!, refreshToken)),
    );
    for (const { status, body } of answers) {
      assert.equal(status, 401);
      assert.match(body.error.reason, /^REFRESH_TOKEN_(REUSED|REVOKED)$/);
    }
    assert.ok(answers.some(({ body }) => body.error.reason === "REFRESH_TOKEN_REUSED"));
    assertError(await refreshAt(clients[0], newest.refreshToken), 401, "REFRESH_TOKEN_REVOKED");
    const { rows } = await transact()(({ db }) =>
      sql`select 1 from audit_log where action = 'session.reuse_detected'
        and data->>'userId' = ${user.id}`.execute(db),
    );
    assert.equal(rows.length, 1);
  });

  it("an access token dies within 5 seconds in the process that was not told of the logout", async () => {
    const { accessToken: token } = await login();
    for (const client of clients) assert.equal((await client.get("/api/v1/auth/me", { token })).status, 200);
    must(await clients[0].post("/api/v1/auth/logout", {}, { token }), 200);
    assertError(await clients[0].get("/api/v1/auth/me", { token }), 401, "SESSION_REVOKED");
    await eventuallyHolds(
      async () => assertError(await clients[1].get("/api/v1/auth/me", { token }), 401, "SESSION_REVOKED"),
      { timeoutMs: 10_000 },
    );
  });

  it("a login that races a change of the password ends with it, or is refused", async () => {
    for (let round = 0; round < 3; round++) {
      const { token, email, password } = await aTenant(clients[0]);
      const body = { currentPassword: password, newPassword: "Brass-Lantern-58" };
      const [changed, ...logins] = await Promise.all([
        clients[0].post("/api/v1/auth/change-password", body, { token }),
        ...Array.from({ length: 4 }, () => clients[1].post("/api/v1/auth/login", { email, password })),
      ]);
      assert.equal(changed.status, 200);
      for (const { status, body: session } of logins) {
        if (status !== 200) assert.equal(status, 401);
        else assert.equal((await refreshAt(clients[1], session.refreshToken)).status, 401);
      }
    }
  });

  it("a refresh token that nobody was given is refused by both", async () => {
    for (const client of clients) {
      assertError(await refreshAt(client, newRefreshToken()), 401, "REFRESH_TOKEN_INVALID");
    }
  });
});
