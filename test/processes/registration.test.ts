import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { issueUserToken, type UserTokenPurpose } from "../../src/domain/accounts/auth/user-tokens.ts";
import { User } from "../../src/domain/accounts/auth/user.ts";
import { Tenant } from "../../src/domain/accounts/tenants/tenant.ts";
import { createTransact } from "../../src/domain/kernel/transact.ts";
import type { Transact } from "../../src/domain/kernel/work.ts";
import { NO_WAKE_UPS } from "../../src/domain/kernel/wake-ups.ts";
import { solved } from "../support/providers/captcha-provider.ts";
import { type Answer, type Client, must } from "../support/http/client.ts";
import { startTwoServers, type TwoServers } from "../support/processes/two-servers.ts";

const PASSWORD = "Difference-Engine-2";
const anEmail = () => `${randomUUID()}@example.com`;
const AT_ONCE = Array.from({ length: 10 }, (_, index) => index);
const statuses = (answers: Answer[]) => answers.map(({ status }) => status).toSorted();

describe("accounts, asked for at once over two processes", () => {
  let two: TwoServers;
  let transact: Transact;
  const client = (index: number): Client => two.clients[index % 2]!;

  const solution = async () => solved((await client(0).get("/api/v1/auth/captcha")).body.challenge);
  const register = (index: number, body: object): Promise<Answer> =>
    client(index).post("/api/v1/auth/register", {
      email: anEmail(),
      name: "Ada Lovelace",
      password: PASSWORD,
      ...body,
    });
  const aUser = async (): Promise<{ id: string; tenantId: string; email: string }> =>
    must(await register(0, { captchaToken: await solution() }), 201).user;
  const issued = (user: { id: string; tenantId: string }, purpose: UserTokenPurpose, email: string) => {
    const { id: userId, tenantId } = user;
    return transact((work) => issueUserToken(work, { userId, tenantId, purpose, email, seconds: 60 }));
  };

  before(async () => {
    const captcha = { CAPTCHA_PROVIDER: "altcha", CAPTCHA_SECRET: "secret-of-the-tests" };
    two = await startTwoServers({ env: { EMAIL_MODE: "off", ...captcha } });
    transact = createTransact({
      em: two.database.em,
      clock: () => new Date(),
      wakeUps: NO_WAKE_UPS,
      onError: (error) => assert.fail(String(error)),
    });
  });
  after(() => two?.stop());

  it("take a solved captcha once", async () => {
    const captchaToken = await solution();
    const answers = await Promise.all(AT_ONCE.map((index) => register(index, { captchaToken })));
    assert.deepEqual(statuses(answers), [201, ...Array(9).fill(400)]);
  });

  it("have an address once", async () => {
    const email = anEmail();
    const tokens = await Promise.all(AT_ONCE.slice(0, 6).map(() => solution()));
    const answers = await Promise.all(
      tokens.map((captchaToken, index) => register(index, { email, captchaToken })),
    );
    assert.deepEqual(statuses(answers), [201, ...Array(5).fill(409)]);
  });

  it("do not outgrow the members of the plan", async () => {
    const { tenantId } = await aUser();
    await transact(async ({ em }) => {
      (await em.findOneOrFail(Tenant, { id: tenantId })).planOverrides = { members: 3 };
    });
    const tokens = await Promise.all(AT_ONCE.slice(0, 6).map(() => solution()));
    const answers = await Promise.all(
      tokens.map((captchaToken, index) => register(index, { tenantId, captchaToken })),
    );
    assert.deepEqual(statuses(answers), [201, 201, 402, 402, 402, 402]);
    assert.equal(await transact(({ em }) => em.count(User, { tenantId })), 3);
  });

  it("take a mailed link once", async () => {
    const user = await aUser();
    const reset = await issued(user, "RESET_PASSWORD", user.email);
    const resets = await Promise.all(
      // Each hash is work, and a process does so many at once.
      AT_ONCE.slice(0, 6).map((index) =>
        client(index).post("/api/v1/auth/reset-password", { token: reset, password: `${PASSWORD}-${index}` }),
      ),
    );
    assert.deepEqual(statuses(resets), [200, ...Array(5).fill(410)]);
    const token = await issued(user, "VERIFY_EMAIL", user.email);
    const proofs = await Promise.all(
      AT_ONCE.map((index) => client(index).post("/api/v1/auth/verify-email", { token })),
    );
    assert.deepEqual(statuses(proofs), [200, ...Array(9).fill(410)]);
  });

  it("do not wait for each other when a new address and a new password meet", async () => {
    for (let round = 0; round < 10; round++) {
      const user = await aUser();
      const reset = await issued(user, "RESET_PASSWORD", user.email);
      const change = await issued(user, "CHANGE_EMAIL", anEmail());
      const [proof, password] = await Promise.all([
        client(0).post("/api/v1/auth/verify-email", { token: change }),
        client(1).post("/api/v1/auth/reset-password", { token: reset, password: `${PASSWORD}-new` }),
      ]);
      // Whichever came first ended the other's link.
      assert.deepEqual(statuses([proof, password]), [200, 410]);
    }
  });
});
