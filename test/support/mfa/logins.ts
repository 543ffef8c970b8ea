import type { Answer, Tenant, TestApp } from "../app/app.ts";
import { assertError } from "../http/assert-error.ts";
import { anAddress, must } from "../http/client.ts";

const LOGIN = "/api/v1/auth/login";

/** How a tenant's OWNER logs in with a second factor, from an address of its own each time. */
export const loginsOf = (api: TestApp, { email, password, token }: Tenant) => {
  const from = (address: string) => ({ headers: { "X-Forwarded-For": address } });
  const logIn = (more: object = {}): Promise<Answer> =>
    api.post(LOGIN, { email, password, ...more }, from(anAddress()));
  const own = { token };
  return {
    own,
    /** With the password, and what else is given. */
    logIn,
    /** The token that a login with the password alone is answered. */
    challenge: async (): Promise<string> => {
      const answer = await logIn();
      assertError(answer, 401, "MFA_REQUIRED");
      return answer.body.error.challenge.token;
    },
    complete: (challengeToken: string, code: string, address = anAddress()): Promise<Answer> =>
      api.post(`${LOGIN}/mfa`, { challengeToken, code }, from(address)),
    factors: async () => must(await api.get("/api/v1/auth/mfa", own), 200),
  };
};
