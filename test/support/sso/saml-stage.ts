import assert from "node:assert/strict";
import { aTenant, startApp, type Tenant, type TestApp } from "../app/app.ts";
import { must } from "../http/client.ts";
import { type Asked, bring, type Parts, partsOf, responseXml, signAssertion, toIdp } from "./saml-idp.ts";
import { aSigningKey, samlConfig } from "./saml-config.ts";
import { aVerifiedDomain, putSso, type SsoServer, startSsoServer } from "./server.ts";

/** What attackers of sign-ins by SAML meet: two tenants, each with a provider of its own. */
export type SamlStage = {
  api: TestApp;
  server: SsoServer;
  tenant: Tenant;
  other: Tenant;
  /** Of the tenant. */
  domain: string;
  /** The keys of the tenant's provider, and of the other's. */
  idp: ReturnType<typeof aSigningKey>;
  foreign: ReturnType<typeof aSigningKey>;
  victim(): string;
  attacker(): string;
  /** A request on its way to the tenant's provider. */
  ask(): Promise<Asked>;
  /** An answer with its assertion signed by the provider. */
  signed(asked: Asked, changed?: Partial<Parts>, nameId?: string): string;
  errorOf(asked: Asked, xml: string): Promise<string | undefined>;
  assertRefused(asked: Asked, xml: string): Promise<void>;
};

/**
 * Opens a stage for the tests of a `describe`, shows that an unchanged answer signs in, and after each test
 * that nobody but the attacker has an account.
 */
export const samlStage = (): SamlStage => {
  const stage = { idp: aSigningKey(), foreign: aSigningKey() } as SamlStage;
  stage.victim = () => `victim@${stage.domain}`;
  stage.attacker = () => `attacker@${stage.domain}`;
  stage.ask = () => toIdp(stage.server, stage.tenant);
  stage.signed = (asked, changed = {}, nameId = stage.attacker()) =>
    signAssertion(responseXml(partsOf(asked, nameId, changed)), stage.idp);
  stage.errorOf = async (asked, xml) => {
    const answer = await bring(asked, xml);
    assert.deepEqual(Object.keys(answer).toSorted(), ["error", "error_description"]);
    return answer["error"];
  };
  stage.assertRefused = async (asked, xml) => assert.equal(await stage.errorOf(asked, xml), "provider_error");
  const members = async (): Promise<string[]> => {
    const { data } = must(await stage.server.get("/api/v1/team/members", { token: stage.tenant.token }), 200);
    return data.map(({ email }: { email: string }) => email);
  };

  before(async () => {
    stage.api = await startApp();
    stage.server = await startSsoServer(stage.api);
    stage.tenant = await aTenant(stage.server);
    stage.domain = await aVerifiedDomain(stage.server, stage.tenant);
    const config = (cert: string) => samlConfig(cert, { autoProvision: true });
    must(await putSso(stage.server, stage.tenant, config(stage.idp.cert)), 200);
    stage.other = await aTenant(stage.server);
    await aVerifiedDomain(stage.server, stage.other);
    must(await putSso(stage.server, stage.other, config(stage.foreign.cert)), 200);
  });
  afterEach(async () => assert.ok(!(await members()).includes(stage.victim())));
  after(() => stage.server.close());

  it("fail only for what each test changes: an unchanged answer signs in", async () => {
    const asked = await stage.ask();
    assert("access_token" in (await bring(asked, stage.signed(asked))));
  });
  return stage;
};
