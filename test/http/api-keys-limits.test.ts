import assert from "node:assert/strict";
import { ApiKey } from "../../src/domain/accounts/api-keys/api-key.ts";
import { forgetSessions } from "../../src/domain/accounts/auth/sessions.ts";
import { User } from "../../src/domain/accounts/auth/user.ts";
import { Project } from "../../src/domain/accounts/projects/project.ts";
import { type Answer, aTenant, startApp } from "../support/app/app.ts";
import { anotherServer } from "../support/app/another-server.ts";
import { assertError } from "../support/http/assert-error.ts";
import { type Client, must } from "../support/http/client.ts";
import { aMailTo, mailsTo } from "../support/mail/mailbox.ts";
import { aMember } from "../support/app/member.ts";
import { putOnPlan } from "../support/app/plans.ts";
import { madeOnce, madeForEach } from "../support/made.ts";

describe("the making of API keys", () => {
  const keysPath = () => `/api/v1/projects/${tenant.projectId}/api-keys`;
  const create = (body: object = {}, token = tenant.token, on: Client = api): Promise<Answer> =>
    on.post(keysPath(), { name: "Server", ...body }, { token });
  const count = (answers: Answer[], status: number) => answers.filter((one) => one.status === status).length;

  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));

  it("stops exactly at the plan's number of active keys, also when all come at once", async () => {
    await putOnPlan(api, tenant.tenantId, "FREE");
    const answers = await Promise.all(Array.from({ length: 8 }, () => create()));
    assert.deepEqual([count(answers, 201), count(answers, 402)], [4, 4]);
    for (const answer of answers.filter(({ status }) => status === 402))
      assertError(answer, 402, "PLAN_LIMIT_EXCEEDED");
    assertError(await create({ environment: "test" }), 402, "PLAN_LIMIT_EXCEEDED");
  });

  it("has room again for each key that was revoked or has expired", async () => {
    await putOnPlan(api, tenant.tenantId, "FREE", { activeKeysPerProject: 3 });
    const [first, second] = [must(await create(), 201), must(await create(), 201)];
    assertError(await create(), 402, "PLAN_LIMIT_EXCEEDED");
    await api.delete(`${keysPath()}/${first.id}`, { token: tenant.token });
    must(await create(), 201);
    assertError(await create(), 402, "PLAN_LIMIT_EXCEEDED");
    const expiresAt = new Date(Date.now() - 1);
    await api.app.transact(({ em }) => em.nativeUpdate(ApiKey, { id: second.id }, { expiresAt }));
    must(await create(), 201);
  });

  it("of one project is not held up by another's keys", async () => {
    await putOnPlan(api, tenant.tenantId, "STARTER", { activeKeysPerProject: 1 });
    const { token } = tenant;
    assertError(await create(), 402, "PLAN_LIMIT_EXCEEDED");
    const second = must(await api.post("/api/v1/projects", { name: "Second" }, { token }), 201);
    must(await api.post(`/api/v1/projects/${second.id}/api-keys`, { name: "Server" }, { token }), 201);
  });

  describe("where addresses must be proved", () => {
    const strict = madeForEach(() => anotherServer(api, { isVerifiedEmailRequired: true }));
    const prove = async (emailVerified: boolean) => {
      await api.app.transact(({ em }) => em.nativeUpdate(User, { id: tenant.userId }, { emailVerified }));
      forgetSessions();
    };

    it("needs a proved address for live keys only", async () => {
      await prove(false);
      assertError(await create({}, tenant.token, strict), 403, "EMAIL_NOT_VERIFIED");
      assertError(await create({ environment: "live" }, tenant.token, strict), 403, "EMAIL_NOT_VERIFIED");
      must(await create({ environment: "test" }, tenant.token, strict), 201);
      await prove(true);
      must(await create({}, tenant.token, strict), 201);
    });

    it("needs it for the rotation of live keys too", async () => {
      const [live, test] = [must(await create(), 201), must(await create({ environment: "test" }), 201)];
      await prove(false);
      const { token } = tenant;
      const rotate = (id: string) => strict.post(`${keysPath()}/${id}/rotate`, {}, { token });
      assertError(await rotate(live.id), 403, "EMAIL_NOT_VERIFIED");
      must(await rotate(test.id), 201);
      await prove(true);
      must(await rotate(live.id), 201);
    });
  });

  describe("is told by email", () => {
    it("to every OWNER but the one who did it, for live keys and their rotation", async () => {
      const { email } = await aMember(api, tenant.tenantId, "OWNER");
      const developer = await aMember(api, tenant.tenantId, "DEVELOPER");
      const made = must(await create({ name: "Match maker" }), 201);
      const mail = await aMailTo(email, /key/i);
      assert.match(mail.text ?? "", /Match maker/);
      assert(mail.text?.includes(made.prefix) && !mail.text.includes(made.key));
      for (const quiet of [tenant.email, developer.email])
        assert(!mailsTo(quiet).some(({ text }) => text?.includes("Match maker")));
    });

    it("to all OWNERS when a DEVELOPER made it, and for no test key", async () => {
      const developer = await aMember(api, tenant.tenantId, "DEVELOPER");
      must(await create({ name: "Quiet key", environment: "test" }, developer.token), 201);
      must(await create({ name: "Loud key", scopes: ["events:write"] }, developer.token), 201);
      const mail = await aMailTo(tenant.email, /key/i);
      assert.match(mail.text ?? "", /Loud key/);
      assert(!mailsTo(tenant.email).some(({ text }) => text?.includes("Quiet key")));
    });

    it("to nobody by a server that sends no mail, which makes keys all the same", async () => {
      const { mail } = api.app.config;
      const mute = await anotherServer(api, { mail: { ...mail, mode: "off" } });
      await aMember(api, tenant.tenantId, "OWNER");
      must(await create({}, tenant.token, mute), 201);
    });
  });

  it("in a sandbox's name is refused: its keys are test keys of its project", async () => {
    must(await create({ environment: "test" }), 201);
    const { token, projectId } = tenant;
    const sandbox = await api.app.transact(({ em }) => em.findOneOrFail(Project, { sandboxOf: projectId }));
    const path = `/api/v1/projects/${sandbox.id}/api-keys`;
    assertError(await api.post(path, { name: "Server" }, { token }), 409, "INVALID_STATE");
    assertError(await api.get(path, { token }), 409, "INVALID_STATE");
  });
});
