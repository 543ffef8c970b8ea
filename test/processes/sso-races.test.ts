import assert from "node:assert/strict";
import { sql } from "kysely";
import { hashRandomSecret } from "../../src/domain/accounts/auth/one-time-secrets.ts";
import { aTenant, type Tenant } from "../support/app/app.ts";
import { eventually } from "../support/eventually.ts";
import { assertError } from "../support/http/assert-error.ts";
import { type Answer, type Client, must } from "../support/http/client.ts";
import { twoServers, type TwoServers } from "../support/processes/two-servers.ts";
import { aSigningKey, putSso, samlConfig } from "../support/sso/server.ts";

/** Races of each kind. */
const ROUNDS = 4;

type Owner = { userId: string; token: string };

describe("single sign-on that two processes change at once", () => {
  let two: TwoServers;
  let here: Client;
  let there: Client;
  let tenant: Tenant;
  const { cert } = aSigningKey();

  const db = () => two.database.em.fork().getKysely();
  const put = (by: Client, { token }: Pick<Owner, "token">, more: object) =>
    putSso(by, { token }, samlConfig(cert, more));
  const enforce = (by: Client, of: Pick<Owner, "token">, { userId: breakGlassUserId }: Owner) =>
    put(by, of, { enforceSso: true, breakGlassUserId });
  /** The OWNER has just signed in through the provider. */
  const signedIn = () =>
    sql`update sessions set method = 'SSO' where user_id = ${tenant.userId}::uuid`.execute(db());

  before(async () => {
    two = await twoServers();
    [here, there] = two.clients;
  });
  beforeEach(async () => {
    tenant = await aTenant(here);
    must(await put(here, tenant, {}), 200);
    await signedIn();
  });

  describe("never has a break-glass OWNER who could not sign in:", () => {
    /** An OWNER who has just signed in through the provider, with a second factor that was just proved. */
    const anOwner = async (): Promise<Owner> => {
      const owner = await two.member(tenant, "OWNER");
      await sql`update users set mfa_enabled = true where id = ${owner.userId}::uuid`.execute(db());
      await sql`
        update sessions set method = 'SSO', mfa_at = now() where user_id = ${owner.userId}::uuid`.execute(
        db(),
      );
      return owner;
    };
    const assertFine = async (answers: readonly Answer[]): Promise<void> => {
      const { rows } = await sql<{ enforced: boolean; fine: boolean }>`
        select c.enforce_sso as enforced,
          coalesce(u.role = 'OWNER' and u.status = 'ACTIVE' and u.mfa_enabled and u.disabled_at is null, false)
            as fine
        from sso_configurations c left join users u on u.id = c.break_glass_user_id
        where c.tenant_id = ${tenant.tenantId}::uuid`.execute(db());
      const { enforced, fine } = rows[0]!;
      assert.ok(!enforced || fine, JSON.stringify(answers.map(({ status, body }) => [status, body])));
    };

    const losses: Record<string, (by: Client, of: Owner, victim: Owner) => Promise<Answer>> = {
      demoted: (by, { token }, { userId }) =>
        by.patch(`/api/v1/team/members/${userId}`, { role: "ADMIN" }, { token }),
      suspended: (by, { token }, { userId }) =>
        by.patch(`/api/v1/team/members/${userId}`, { status: "SUSPENDED" }, { token }),
      removed: (by, { token }, { userId }) => by.delete(`/api/v1/team/members/${userId}`, { token }),
      "leaving by themselves": (by, _of, { token }) => by.post("/api/v1/team/leave", {}, { token }),
      "without the second factor": (by, { token }, { userId }) =>
        by.post(`/api/v1/team/members/${userId}/reset-mfa`, { currentPassword: tenant.password }, { token }),
    };
    for (const [what, lose] of Object.entries(losses))
      it(`who is ${what} at the same time as they are named`, async () => {
        for (let round = 0; round < ROUNDS; round++) {
          const [actor, victim] = [await anOwner(), await anOwner()];
          const [first, second] = round % 2 === 0 ? [here, there] : [there, here];
          const wishes = [() => enforce(first, tenant, victim), () => lose(second, actor, victim)];
          if (round % 2 === 1) wishes.reverse();
          await assertFine(await Promise.all(wishes.map((wish) => wish())));
          must(await put(here, tenant, { enforceSso: false }), 200);
          await signedIn();
        }
      });

    it("of two whom two OWNERs name, while a third one takes both away", async () => {
      for (let round = 0; round < ROUNDS; round++) {
        const [one, other, third] = [await anOwner(), await anOwner(), await anOwner()];
        const answers = await Promise.all([
          enforce(here, tenant, one),
          enforce(there, one, other),
          losses["demoted"]!(there, third, one),
          losses["suspended"]!(here, third, other),
          put(there, third, { enforceSso: false }),
        ]);
        await assertFine(answers);
        must(await put(here, tenant, { enforceSso: false }), 200);
      }
    });
  });

  describe("that is changed by a transaction that has not ended", () => {
    let glass: Owner;
    beforeEach(async () => {
      glass = await two.member(tenant, "OWNER");
      await sql`update users set mfa_enabled = true where id = ${glass.userId}::uuid`.execute(db());
    });

    /** Asks while another transaction holds what `change` has changed, and commits that once `ask` waits. */
    const whileHeld = async (change: ReturnType<typeof sql>, ask: () => Promise<Answer>): Promise<Answer> => {
      const held = await db().startTransaction().execute();
      await change.execute(held);
      const answer = ask();
      await eventually(async () => {
        const { rows } = await sql<{ n: number }>`
          select count(*) as n from pg_stat_activity
          where datname = current_database() and wait_event_type = 'Lock'`.execute(db());
        return rows[0]!.n === 1;
      });
      await held.commit().execute();
      return answer;
    };

    it("is seen by a login that has proved its password before that", async () => {
      const viewer = await two.member(tenant, "VIEWER");
      const { rows } = await sql<{ email: string }>`
        select email from users where id = ${viewer.userId}::uuid`.execute(db());
      const login = await whileHeld(
        sql`update sso_configurations set enforce_sso = true, break_glass_user_id = ${glass.userId}::uuid
          where tenant_id = ${tenant.tenantId}::uuid`,
        () => there.post("/api/v1/auth/login", { email: rows[0]!.email, password: tenant.password }),
      );
      assertError(login, 403, "SSO_REQUIRED");
    });

    it("or disabled is seen by a sign-in through the provider that has come to its code", async () => {
      const viewer = await two.member(tenant, "VIEWER");
      const codes = ["first", "second"].map((name) => `${name}-${viewer.userId}`);
      for (const code of codes)
        await sql`
          insert into oauth_codes (hash, user_id, provider, idp, expires_at)
          select ${hashRandomSecret(code)}, ${viewer.userId}::uuid, 'sso',
            c.id || ' ' || to_char(c.idp_changed_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
            now() + interval '1 minute'
          from sso_configurations c where c.tenant_id = ${tenant.tenantId}::uuid`.execute(db());
      const exchange = (code?: string) => there.post("/api/v1/auth/oauth/exchange", { code });
      must(await exchange(codes[0]), 200);
      const late = await whileHeld(
        sql`update sso_configurations set status = 'DISABLED' where tenant_id = ${tenant.tenantId}::uuid`,
        () => exchange(codes[1]),
      );
      assertError(late, 400, "OAUTH_CODE_INVALID");
    });

    it("waits for the second factor of the break-glass OWNER, which may be on its way out", async () => {
      // Who changes their second factor holds their row.
      const enforced = await whileHeld(
        sql`update users set mfa_enabled = false where id = ${glass.userId}::uuid`,
        () => enforce(here, tenant, glass),
      );
      assertError(enforced, 422, "SSO_CONFIG_INVALID");
    });
  });
});
