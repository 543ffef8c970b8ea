import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import {
  hashRandomSecret,
  issueUserToken,
  type UserTokenPurpose,
} from "../../src/domain/accounts/auth/one-time-secrets.ts";
import { aTenant, type Tenant } from "../support/app/app.ts";
import { openDomain } from "../support/domain/domain.ts";
import { eventually } from "../support/eventually.ts";
import { assertError } from "../support/http/assert-error.ts";
import { type Answer, type Client, must } from "../support/http/client.ts";
import { totpCode } from "../support/mfa/second-factor.ts";
import { superAdminOf, twoServers, type TwoServers } from "../support/processes/two-servers.ts";

const ROUNDS = 5;
const PASSWORD = "Brass-Lantern-58";
const MFA = "/api/v1/auth/mfa";
const LOGIN = "/api/v1/auth/login";

const anEmail = (): string => `${randomUUID()}@example.com`;
const statusesOf = (answers: readonly Answer[]): number[] =>
  answers.map(({ status }) => status).toSorted((a, b) => a - b);
const once = (status: number, others: number, refused: number): number[] =>
  [status, ...Array<number>(others).fill(refused)].toSorted((a, b) => a - b);

describe("accounts that two processes change at once", () => {
  let two: TwoServers;
  let tenant: Tenant;
  let adminToken: string;

  before(async () => {
    two = await twoServers();
    adminToken = await superAdminOf(two);
  });
  beforeEach(async () => {
    tenant = await aTenant(two.clients[0]);
  });

  const db = () => two.database.em.fork().getKysely();
  const numberOf = async (query: ReturnType<typeof sql<{ n: number }>>): Promise<number> =>
    (await query.execute(db())).rows[0]!.n;
  /** Takes the processes in turn. */
  const client = (turn: number): Client => two.clients[turn % 2]!;
  /** Asks both processes at once. */
  const race = (times: number, ask: (at: Client, turn: number) => Promise<Answer>): Promise<Answer[]> =>
    Promise.all(Array.from({ length: times }, (_, turn) => ask(client(turn), turn)));
  const override = (planOverrides: object) =>
    sql`update tenants set plan_overrides = ${JSON.stringify(planOverrides)}::jsonb
      where id = ${tenant.tenantId}::uuid`.execute(db());
  const mine = () => ({ token: tenant.token });

  describe("of keys and projects", () => {
    const keys = () => `/api/v1/projects/${tenant.projectId}/api-keys`;
    const aKeyId = async (): Promise<string> =>
      must(await client(0).post(keys(), { name: "Server" }, mine()), 201).id;

    it("are as many as the plan has", async () => {
      await override({ activeKeysPerProject: 6, projects: 4 });
      const made = await race(16, (at) => at.post(keys(), { name: "Server" }, mine()));
      assert.deepEqual(statusesOf(made), [...Array(5).fill(201), ...Array(11).fill(402)]);
      const projects = await race(12, (at) => at.post("/api/v1/projects", { name: "Game" }, mine()));
      assert.deepEqual(statusesOf(projects), [...Array(3).fill(201), ...Array(9).fill(402)]);
    });

    it("are rotated or revoked once", async () => {
      const id = await aKeyId();
      assert.deepEqual(
        statusesOf(await race(8, (at) => at.post(`${keys()}/${id}/rotate`, {}, mine()))),
        once(201, 7, 409),
      );
      const mixed = await aKeyId();
      const both = await race(8, (at, turn) =>
        turn % 2 === 0
          ? at.post(`${keys()}/${mixed}/rotate`, { gracePeriodSeconds: 0 }, mine())
          : at.delete(`${keys()}/${mixed}`, mine()),
      );
      assert.deepEqual(statusesOf(both).slice(1), Array(7).fill(409));
    });
  });

  describe("of super-admins", () => {
    const auditCount = (target: string, action: string): Promise<number> =>
      numberOf(sql<{ n: number }>`
        select count(*) as n from audit_log where target_id = ${target} and action = ${action}`);

    it("are approved, disabled, enabled and revoked once, with one line in the log", async () => {
      const { tenantId, userId } = tenant;
      const admin = { token: adminToken };
      await sql`update tenants set approval_status = 'PENDING' where id = ${tenantId}::uuid`.execute(db());
      const body = { name: "Build", scopes: ["blog:sync"] };
      const { id } = must(await client(0).post("/superadmin/tokens", body, admin), 201);
      const acts: [target: string, action: string, act: (at: Client) => Promise<Answer>][] = [
        [tenantId, "tenant.approved", (at) => at.post(`/superadmin/tenants/${tenantId}/approve`, {}, admin)],
        [
          userId,
          "user.disabled",
          (at) => at.post(`/superadmin/users/${userId}/disable`, { reason: "Spam" }, admin),
        ],
        [userId, "user.enabled", (at) => at.post(`/superadmin/users/${userId}/enable`, {}, admin)],
        [id, "platform_token.revoked", (at) => at.delete(`/superadmin/tokens/${id}`, admin)],
      ];
      for (const [target, action, act] of acts) {
        assert.deepEqual(statusesOf(await race(4, act)), once(200, 3, 409), action);
        assert.equal(await auditCount(target, action), 1, action);
      }
    });

    it("count blog posts once however many calls bring them", async () => {
      const posts = Array.from({ length: 50 }, (_, at) => ({
        slug: `race-${at}`,
        title: `Race ${at}`,
        postDate: "2026-03-01",
      }));
      const answers = await race(4, (at, turn) =>
        at.post(
          "/superadmin/blog-posts/sync",
          { posts: turn % 2 === 0 ? posts : posts.toReversed() },
          { token: adminToken },
        ),
      );
      const sum = (name: string) => answers.reduce((total, answer) => total + must(answer, 200)[name], 0);
      assert.deepEqual([sum("created"), sum("updated")], [50, 0]);
    });
  });

  describe("of a team", () => {
    const invited = async (role: string): Promise<string> => {
      const token = randomUUID();
      await sql`
        insert into invitations (id, tenant_id, email, role, token_hash, status, invited_by, expires_at, sent_at,
          created_at, updated_at)
        values (gen_random_uuid(), ${tenant.tenantId}::uuid, ${anEmail()}, ${role}, ${hashRandomSecret(token)},
          'PENDING', ${tenant.userId}::uuid, now() + interval '1 day', now(), now(), now())`.execute(db());
      return token;
    };
    const accept = (at: Client, token: string) =>
      at.post("/team/invitations/accept", { token, name: "Ada Lovelace", password: PASSWORD });

    it("let one in of several who accept one invitation", async () => {
      for (let round = 0; round < ROUNDS; round++) {
        const token = await invited("DESIGNER");
        assert.deepEqual(statusesOf(await race(4, (at) => accept(at, token))), once(200, 3, 409));
      }
    });

    it("either accept an invitation or revoke it, never both", async () => {
      for (let round = 0; round < ROUNDS; round++) {
        const token = await invited("VIEWER");
        const { data } = must(await client(0).get("/team/invitations?status=PENDING", mine()), 200);
        const [accepted, revoked] = await Promise.all([
          accept(client(0), token),
          client(1).delete(`/team/invitations/${data[0].id}`, mine()),
        ]);
        assert.deepEqual(
          [accepted.status, revoked.status],
          accepted.status === 200 ? [200, 409] : [410, 200],
        );
      }
    });

    it("fill the seats of the plan to the last one and no further", async () => {
      await override({ members: 5 });
      await sql`update users set email_verified = true where id = ${tenant.userId}::uuid`.execute(db());
      /** As clients are told to, comes again where a request has waited too long for the others. */
      const invite = (at: Client) =>
        eventually(async () => {
          const answer = await at.post("/team/invitations", { email: anEmail(), role: "VIEWER" }, mine());
          return answer.status === 503 ? undefined : answer;
        });
      const invitations = await race(15, invite);
      assert.deepEqual(statusesOf(invitations), [...Array(4).fill(201), ...Array(11).fill(402)]);
      await sql`delete from invitations where tenant_id = ${tenant.tenantId}::uuid`.execute(db());
      const { tenantId } = tenant;
      const joining = await race(6, (at, turn) =>
        at.post(
          "/api/v1/auth/register",
          { email: anEmail(), name: "Ada Lovelace", password: PASSWORD, tenantId },
          { headers: { "X-Forwarded-For": `10.7.${turn}.${Math.floor(Math.random() * 250)}` } },
        ),
      );
      assert.deepEqual(statusesOf(joining), [201, 201, 201, 201, 402, 402]);
    });

    it("have an OWNER, by whatever routes two OWNERs go at each other and themselves", async () => {
      const strikes = (by: string, userId: string, other: string) => [
        (at: Client) => at.patch(`/team/members/${other}`, { role: "VIEWER" }, { token: by }),
        (at: Client) => at.patch(`/team/members/${other}`, { status: "SUSPENDED" }, { token: by }),
        (at: Client) => at.delete(`/team/members/${other}`, { token: by }),
        (at: Client) => at.delete(`/team/members?id=${other}`, { token: by }),
        (at: Client) => at.patch(`/team/members/${userId}`, { role: "ADMIN" }, { token: by }),
        (at: Client) => at.delete(`/team/members/${userId}`, { token: by }),
        (at: Client) => at.post("/team/leave", {}, { token: by }),
        (at: Client) =>
          at.post(
            "/tenant/transfer-ownership",
            { userId: other, currentPassword: tenant.password },
            { token: by },
          ),
      ];
      for (let round = 0; round < ROUNDS; round++) {
        tenant = await aTenant(client(0));
        const second = await two.member(tenant, "OWNER");
        const all = [
          ...strikes(tenant.token, tenant.userId, second.userId),
          ...strikes(second.token, second.userId, tenant.userId),
        ].toSorted(() => Math.random() - 0.5);
        const answers = await Promise.all(all.map((strike, i) => strike(client(i))));
        for (const { status, body } of answers)
          assert.ok([200, 401, 403, 404, 409, 429].includes(status), JSON.stringify(body));
        const owners = await numberOf(sql<{ n: number }>`
          select count(*) as n from users where tenant_id = ${tenant.tenantId}::uuid
            and role = 'OWNER' and status = 'ACTIVE' and disabled_at is null`);
        assert.ok(owners >= 1, "no OWNER is left");
      }
    });
  });

  describe("of passwords and sessions", () => {
    const issued = (purpose: UserTokenPurpose, email: string): Promise<string> => {
      const { userId, tenantId } = tenant;
      return openDomain(two.database).transact((work) =>
        issueUserToken(work, { userId, tenantId, purpose, email, seconds: 60 }),
      );
    };
    const reset = (at: Client, token: string, password: string) =>
      at.post("/api/v1/auth/reset-password", { token, password });
    const verify = (at: Client, token: string) => at.post("/api/v1/auth/verify-email", { token });
    const logIn = async () =>
      must(await client(0).post(LOGIN, { email: tenant.email, password: tenant.password }), 200);
    const refresh = (at: Client, refreshToken: string) => at.post("/api/v1/auth/refresh", { refreshToken });

    it("take a mailed link once", async () => {
      const link = await issued("RESET_PASSWORD", tenant.email);
      // Each hash is work, and a process does so many at once.
      const resets = await race(6, (at, turn) => reset(at, link, `${PASSWORD}-${turn}`));
      assert.deepEqual(statusesOf(resets), once(200, 5, 410));
      const proof = await issued("VERIFY_EMAIL", tenant.email);
      assert.deepEqual(statusesOf(await race(10, (at) => verify(at, proof))), once(200, 9, 410));
    });

    it("do not wait for each other when a new address and a new password meet", async () => {
      for (let round = 0; round < ROUNDS; round++) {
        tenant = await aTenant(client(0));
        const link = await issued("RESET_PASSWORD", tenant.email);
        const change = await issued("CHANGE_EMAIL", anEmail());
        const answers = await Promise.all([verify(client(0), change), reset(client(1), link, PASSWORD)]);
        // Whichever came first ended the other's link.
        assert.deepEqual(statusesOf(answers), [200, 410]);
      }
    });

    it("give each of twenty who refresh at once a token of its own, and later than the grace none", async () => {
      const { refreshToken } = await logIn();
      const given = await race(20, (at) => refresh(at, refreshToken));
      assert.equal(new Set(given.map((answer) => must(answer, 200).refreshToken)).size, 20);
      const later = await logIn();
      const newest = must(await refresh(client(1), later.refreshToken), 200);
      await sql`update refresh_tokens set used_at = used_at - interval '31 seconds'
        where used_at is not null`.execute(db());
      const answers = await race(20, (at) => refresh(at, later.refreshToken));
      const reasons = answers.map(({ status, body }) => `${status} ${body.error.reason}`);
      assert.ok(reasons.includes("401 REFRESH_TOKEN_REUSED"), reasons.join());
      for (const reason of reasons) assert.match(reason, /^401 REFRESH_TOKEN_(REUSED|REVOKED)$/);
      assertError(await refresh(client(0), newest.refreshToken), 401, "REFRESH_TOKEN_REVOKED");
      const told = await numberOf(sql<{ n: number }>`
        select count(*) as n from audit_log where action = 'session.reuse_detected'
          and data->>'userId' = ${tenant.userId}`);
      assert.equal(told, 1);
    });

    it("end a login that races a change of the password with it, or refuse it", async () => {
      for (let round = 0; round < 3; round++) {
        const { token, email, password } = await aTenant(client(0));
        const body = { currentPassword: password, newPassword: PASSWORD };
        const [changed, ...logins] = await Promise.all([
          client(0).post("/api/v1/auth/change-password", body, { token }),
          ...Array.from({ length: 4 }, () => client(1).post(LOGIN, { email, password })),
        ]);
        assert.equal(changed.status, 200);
        for (const { status, body: session } of logins) {
          if (status !== 200) assert.equal(status, 401);
          else assert.equal((await refresh(client(1), session.refreshToken)).status, 401);
        }
      }
    });
  });

  describe("of a second factor", () => {
    /** A user with codes of an app, and as many challenges, of both processes in turn. */
    const aLogin = async (count: number) => {
      const { email, password } = tenant;
      const setUp = await client(0).post(`${MFA}/totp/setup`, { currentPassword: password }, mine());
      const { secret } = must(setUp, 200);
      const enabled = await client(0).post(`${MFA}/totp/enable`, { code: totpCode(secret) }, mine());
      const { recoveryCodes } = must(enabled, 200);
      const challenges: string[] = [];
      for (let turn = 0; turn < count; turn++) {
        const { body } = await client(turn).post(LOGIN, { email, password });
        challenges.push(body.error.challenge.token);
      }
      return { secret, recoveryCodes, challenges };
    };
    const complete = async (challenges: string[], codeOf: (turn: number) => string): Promise<number[]> =>
      statusesOf(
        await race(challenges.length, (at, turn) =>
          at.post(`${LOGIN}/mfa`, { challengeToken: challenges[turn], code: codeOf(turn) }),
        ),
      );

    it("sign in once with one code of an app, and with one recovery code", async () => {
      const { secret, recoveryCodes, challenges } = await aLogin(8);
      assert.deepEqual(await complete(challenges.slice(0, 4), () => totpCode(secret, 1)), once(200, 3, 401));
      assert.deepEqual(await complete(challenges.slice(4), () => recoveryCodes[0]), once(200, 3, 401));
    });

    it("have one session of one challenge that is answered by two codes", async () => {
      const { recoveryCodes, challenges } = await aLogin(1);
      const twice = [challenges[0]!, challenges[0]!];
      assert.deepEqual(await complete(twice, (turn) => recoveryCodes[turn]), [200, 401]);
    });

    it("count wrong codes together", async () => {
      const { challenges } = await aLogin(12);
      const statuses = await complete(challenges, () => "not-a-code");
      assert.deepEqual(statuses, [...Array<number>(10).fill(401), 429, 429]);
    });
  });
});
