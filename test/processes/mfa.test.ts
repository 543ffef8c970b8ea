import assert from "node:assert/strict";
import { aTenant } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { totpCode } from "../support/mfa/totp.ts";
import { startTwoServers, type TwoServers } from "../support/processes/two-servers.ts";

const MFA = "/api/v1/auth/mfa";
const LOGIN = "/api/v1/auth/login";

describe("a second factor over two processes", () => {
  let two: TwoServers;
  before(async () => {
    two = await startTwoServers();
  });
  after(() => two?.stop());

  /** A user with codes of an app, and as many challenges, of both processes in turn. */
  const aLogin = async (count: number) => {
    const [first] = two.clients;
    const tenant = await aTenant(first);
    const { email, password, token } = tenant;
    const proof = { currentPassword: password };
    const { secret } = must(await first.post(`${MFA}/totp/setup`, proof, { token }), 200);
    const enabled = await first.post(`${MFA}/totp/enable`, { code: totpCode(secret) }, { token });
    const { recoveryCodes } = must(enabled, 200);
    const challenges: string[] = [];
    for (let i = 0; i < count; i++) {
      const { body } = await two.clients[i % 2]!.post(LOGIN, { email, password });
      challenges.push(body.error.challenge.token);
    }
    return { secret, recoveryCodes, challenges };
  };
  const race = async (challenges: string[], code: string): Promise<number[]> => {
    const answers = await Promise.all(
      challenges.map((challengeToken, i) =>
        two.clients[i % 2]!.post(`${LOGIN}/mfa`, { challengeToken, code }),
      ),
    );
    return answers.map(({ status }) => status).toSorted((a, b) => a - b);
  };

  it("one code of an app, sent to both at the same time, signs in once", async () => {
    const { secret, challenges } = await aLogin(4);
    assert.deepEqual(await race(challenges, totpCode(secret, 1)), [200, 401, 401, 401]);
  });

  it("one recovery code, sent to both at the same time, signs in once", async () => {
    const { recoveryCodes, challenges } = await aLogin(4);
    assert.deepEqual(await race(challenges, recoveryCodes[0]), [200, 401, 401, 401]);
  });

  it("one challenge, answered at both at the same time by two codes, gives one session", async () => {
    const { recoveryCodes, challenges } = await aLogin(1);
    const [challengeToken] = challenges;
    const answers = await Promise.all(
      [0, 1].map((i) => two.clients[i]!.post(`${LOGIN}/mfa`, { challengeToken, code: recoveryCodes[i] })),
    );
    assert.deepEqual(answers.map(({ status }) => status).toSorted(), [200, 401]);
  });

  it("wrong codes are counted over both", async () => {
    const { challenges } = await aLogin(12);
    const statuses = await race(challenges, "not-a-code");
    assert.deepEqual(statuses, [...Array<number>(10).fill(401), 429, 429]);
  });
});
