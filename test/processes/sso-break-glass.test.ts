import assert from "node:assert/strict";
import { sql } from "kysely";
import { aTenant, type Tenant } from "../support/app/app.ts";
import { type Answer, type Client, must } from "../support/http/client.ts";
import { startTwoServers, type TwoServers } from "../support/processes/two-servers.ts";
import { aSigningKey, samlConfig } from "../support/sso/saml-config.ts";
import { putSso } from "../support/sso/server.ts";

/** Races of each kind. */
const ROUNDS = 4;

type Owner = { userId: string; token: string };

describe("the break-glass OWNER of two processes", function () {
  let two: TwoServers;
  let here: Client;
  let there: Client;
  let tenant: Tenant;
  const { cert } = aSigningKey();

  const db = () => two.database.em.fork().getKysely();
  /** An OWNER who has just signed in through the provider, with a second factor that was just proved. */
  const anOwner = async (): Promise<Owner> => {
    const owner = await two.member(tenant, "OWNER");
    await sql`update users set mfa_enabled = true where id = ${owner.userId}::uuid`.execute(db());
    await sql`
      update sessions set method = 'SSO', mfa_at = now() where user_id = ${owner.userId}::uuid`.execute(db());
    return owner;
  };
  const put = (by: Client, { token }: Pick<Owner, "token">, more: object) =>
    putSso(by, { token }, samlConfig(cert, more));
  const enforce = (by: Client, of: Pick<Owner, "token">, { userId: breakGlassUserId }: Owner) =>
    put(by, of, { enforceSso: true, breakGlassUserId });
  /** Whether the tenant enforces single sign-on, and whether its break-glass OWNER could sign in. */
  const stand = async () => {
    const { rows } = await sql<{ enforced: boolean; fine: boolean }>`
      select c.enforce_sso as enforced,
        coalesce(u.role = 'OWNER' and u.status = 'ACTIVE' and u.mfa_enabled and u.disabled_at is null, false)
          as fine
      from sso_configurations c left join users u on u.id = c.break_glass_user_id
      where c.tenant_id = ${tenant.tenantId}::uuid`.execute(db());
    return rows[0]!;
  };

  before(async () => {
    two = await startTwoServers({ poolMax: 4 });
    [here, there] = two.clients;
  });
  after(() => two?.stop());
  beforeEach(async () => {
    tenant = await aTenant(here);
    must(await putSso(here, tenant, samlConfig(cert, {})), 200);
    await sql`
      update sessions set method = 'SSO' where user_id = ${tenant.userId}::uuid`.execute(db());
  });

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
    it(`is never one who is ${what} at the same time as they are named`, async () => {
      const outcomes = new Set<string>();
      for (let round = 0; round < ROUNDS; round++) {
        const [actor, victim] = [await anOwner(), await anOwner()];
        const [first, second] = round % 2 === 0 ? [here, there] : [there, here];
        const wishes = [() => enforce(first, tenant, victim), () => lose(second, actor, victim)];
        if (round % 2 === 1) wishes.reverse();
        const answers = await Promise.all(wishes.map((wish) => wish()));
        const { enforced, fine } = await stand();
        assert.ok(!enforced || fine, JSON.stringify(answers.map(({ status, body }) => [status, body])));
        outcomes.add(String(enforced));
        must(await put(here, tenant, { enforceSso: false }), 200);
        await sql`
          update sessions set method = 'SSO' where user_id = ${tenant.userId}::uuid`.execute(db());
      }
      assert.ok(outcomes.size > 0);
    });

  it("is one of the two that two OWNERs name at once, while a third one takes both away", async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const [one, other, third] = [await anOwner(), await anOwner(), await anOwner()];
      await Promise.all([
        enforce(here, tenant, one),
        enforce(there, one, other),
        losses["demoted"]!(there, third, one),
        losses["suspended"]!(here, third, other),
        put(there, third, { enforceSso: false }),
      ]);
      const { enforced, fine } = await stand();
      assert.ok(!enforced || fine);
      const { rows } = await sql<{ n: number | string }>`
        select count(*) as n from users where tenant_id = ${tenant.tenantId}::uuid and role = 'OWNER'
          and status = 'ACTIVE' and disabled_at is null`.execute(db());
      assert.ok(Number(rows[0]!.n) > 0);
      must(await put(here, tenant, { enforceSso: false }), 200);
    }
  });
});
