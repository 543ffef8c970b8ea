import { randomUUID } from "node:crypto";
import { LIMITS } from "../../src/domain/accounts/rate-limits/limiter.ts";
import { aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { aMailTo } from "../support/mail/mailbox.ts";
import { madeForEach, madeOnce } from "../support/made.ts";

const INVITATIONS = "/api/v1/team/invitations";

describe("mails of invitations", () => {
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));

  const invite = (email: string, { token } = tenant) =>
    api.post(INVITATIONS, { email, role: "VIEWER" }, { token });
  const resend = (id: string) => api.post(`${INVITATIONS}/${id}/resend`, {}, { token: tenant.token });
  /** Invites an address as often as the tenant may in a day, and answers the invitation's id. */
  const useUp = async (email: string): Promise<string> => {
    const { id } = must(await invite(email), 201);
    for (let i = 1; i < LIMITS.mailDay.points; i++) {
      assertError(await resend(id), 429, "EMAIL_RATE");
      await minutePasses(email);
      must(await resend(id), 200);
    }
    return id;
  };
  const minutePasses = (email: string) =>
    api.app.limiter.reset(LIMITS.mailMinute, `invitation:${tenant.tenantId}:${email}`);

  it("come from a tenant to an address once a minute and five times a day", async () => {
    const email = `${randomUUID()}@example.com`;
    const id = await useUp(email);
    await minutePasses(email);
    assertError(await resend(id), 429, "EMAIL_RATE");
  });

  it("use up neither another tenant's to the same address, nor its links for a password", async () => {
    const [{ email }, other] = [await aTenant(api), await aTenant(api)];
    await useUp(email);
    must(await invite(email, other), 201);
    must(await api.post("/api/v1/auth/forgot-password", { email }), 200);
    await aMailTo(email, /password/i);
  });
});
