import { sql } from "kysely";
import { hashRandomSecret } from "../../src/domain/accounts/auth/random-secret.ts";
import { aTenant, type Tenant } from "../support/app/app.ts";
import { eventually } from "../support/eventually.ts";
import { assertError } from "../support/http/assert-error.ts";
import { type Answer, type Client, must } from "../support/http/client.ts";
import { startTwoServers, type TwoServers } from "../support/processes/two-servers.ts";
import { aSigningKey, samlConfig } from "../support/sso/saml-config.ts";
import { putSso } from "../support/sso/server.ts";

describe("single sign-on that is enforced", () => {
  let two: TwoServers;
  let here: Client;
  let there: Client;
  let tenant: Tenant;
  let glass: { userId: string; token: string };
  const { cert } = aSigningKey();

  const db = () => two.database.em.fork().getKysely();
  const enforce = () =>
    putSso(here, tenant, samlConfig(cert, { enforceSso: true, breakGlassUserId: glass.userId }));
  const waiting = async (): Promise<number> => {
    const { rows } = await sql<{ n: string }>`
      select count(*) as n from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'`.execute(db());
    return Number(rows[0]!.n);
  };
  /** Holds the row of a user, as who changes their second factor does. */
  const holdUser = async (userId: string) => {
    const held = await db().startTransaction().execute();
    await sql`select 1 from users where id = ${userId}::uuid for update`.execute(held);
    return held;
  };

  before(async () => {
    two = await startTwoServers({ poolMax: 4 });
    [here, there] = two.clients;
  });
  after(() => two?.stop());
  beforeEach(async () => {
    tenant = await aTenant(here);
    glass = await two.member(tenant, "OWNER");
    must(await putSso(here, tenant, samlConfig(cert, {})), 200);
    // The OWNER has just signed in through it.
    await sql`update sessions set method = 'SSO' where user_id = ${tenant.userId}::uuid`.execute(db());
    await sql`update users set mfa_enabled = true where id = ${glass.userId}::uuid`.execute(db());
  });

  it("is seen by a login that has proved its password before that", async () => {
    const viewer = await two.member(tenant, "VIEWER");
    const { rows } = await sql<{ email: string }>`
      select email from users where id = ${viewer.userId}::uuid`.execute(db());
    const held = await db().startTransaction().execute();
    await sql`
      update sso_configurations set enforce_sso = true, break_glass_user_id = ${glass.userId}::uuid
      where tenant_id = ${tenant.tenantId}::uuid`.execute(held);
    const login = there.post("/api/v1/auth/login", { email: rows[0]!.email, password: tenant.password });
    await eventually(async () => (await waiting()) === 1);
    await held.commit().execute();
    assertError(await login, 403, "SSO_REQUIRED");
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
    const held = await db().startTransaction().execute();
    await sql`
      update sso_configurations set status = 'DISABLED'
      where tenant_id = ${tenant.tenantId}::uuid`.execute(held);
    const late = exchange(codes[1]);
    await eventually(async () => (await waiting()) === 1);
    await held.commit().execute();
    assertError(await late, 400, "OAUTH_CODE_INVALID");
  });

  it("waits for the second factor of the break-glass OWNER, which may be on its way out", async () => {
    const held = await holdUser(glass.userId);
    await sql`update users set mfa_enabled = false where id = ${glass.userId}::uuid`.execute(held);
    const enforced: Promise<Answer> = enforce();
    await eventually(async () => (await waiting()) === 1);
    await held.commit().execute();
    assertError(await enforced, 422, "SSO_CONFIG_INVALID");
  });
});
