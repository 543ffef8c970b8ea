import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import { type Client, must } from "../support/http/client.ts";
import { eventually, eventuallyHolds } from "../support/eventually.ts";
import { aMailTo, startMailbox, tokenIn } from "../support/mail/mailbox.ts";
import { startTwoServers, type TwoServers } from "../support/processes/two-servers.ts";

const ROUNDS = 5;
const PASSWORD = "Brass-Lantern-58";
/** Of STARTER. */
const SEATS = 5;

type Owner = { token: string; userId: string; tenantId: string };

describe("a team that several change at once over two processes", () => {
  let two: TwoServers;

  before(async () => {
    const { smtpUrl } = await startMailbox();
    two = await startTwoServers({
      env: {
        SMTP_URL: smtpUrl,
        MAIL_FROM: "Laurel <laurel@test.example>",
        VERIFIED_EMAIL_REQUIRED: "off",
        DEFAULT_PLAN: "STARTER",
      },
      poolMax: 1,
    });
  });
  after(() => two?.stop());

  const anEmail = (): string => `${randomUUID()}@example.com`;
  /** Takes the processes in turn. */
  const client = (turn: number): Client => two.clients[turn % 2]!;

  const anOwner = async (): Promise<Owner> => {
    const body = { email: anEmail(), password: PASSWORD, name: "Test Owner" };
    const { accessToken, user } = must(await client(0).post("/auth/register", body), 201);
    return { token: accessToken, userId: user.id, tenantId: user.tenantId };
  };
  /** As clients are told to, comes again where a request has waited too long for the others. */
  const invite = (turn: number, { token }: Owner, email: string, role: string) =>
    eventually(async () => {
      const answer = await client(turn).post("/team/invitations", { email, role }, { token });
      return answer.status === 503 ? undefined : answer;
    });
  const invited = async (owner: Owner, role: string): Promise<string> => {
    const email = anEmail();
    must(await invite(0, owner, email, role), 201);
    return tokenIn(await aMailTo(email, /./));
  };
  const accept = (turn: number, token: string) =>
    client(turn).post("/team/invitations/accept", { token, name: "Ada Lovelace", password: PASSWORD });
  const count = async (query: ReturnType<typeof sql<{ n: string }>>): Promise<number> => {
    const { rows } = await query.execute(two.database.em.fork().getKysely());
    return Number(rows[0]!.n);
  };

  it("keeps one OWNER when two demote or remove one another", async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const first = await anOwner();
      const { accessToken: token, user } = must(await accept(1, await invited(first, "OWNER")), 200);
      const isRemoval = round % 2 === 1;
      const strike = (turn: number, by: string, id: string) =>
        isRemoval
          ? client(turn).delete(`/team/members/${id}`, { token: by })
          : client(turn).patch(`/team/members/${id}`, { role: "VIEWER" }, { token: by });
      const answers = await Promise.all([strike(0, first.token, user.id), strike(1, token, first.userId)]);
      const [winner, loser] = answers.map(({ status }) => status).toSorted();
      // Who has been removed meanwhile may not even be known any more.
      assert.ok(winner === 200 && (loser === 403 || loser === 401), `${winner} and ${loser}`);
      const { tenantId } = first;
      const owners = await count(sql<{ n: string }>`
        select count(*) as n from users where tenant_id = ${tenantId}::uuid and role = 'OWNER'`);
      assert.equal(owners, 1);
    }
  });

  it("keeps one OWNER when both step down", async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const first = await anOwner();
      const { accessToken: token } = must(await accept(1, await invited(first, "OWNER")), 200);
      const answers = await Promise.all([
        client(0).post("/team/leave", {}, { token: first.token }),
        client(1).post("/team/leave", {}, { token }),
      ]);
      assert.deepEqual(answers.map(({ status }) => status).toSorted(), [200, 409]);
      const refused = answers.find(({ status }) => status === 409);
      assert.equal(refused?.body.error.reason, "LAST_OWNER");
    }
  });

  it("lets one in of several who accept one invitation", async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const owner = await anOwner();
      const token = await invited(owner, "DESIGNER");
      const answers = await Promise.all([0, 1, 2, 3].map((turn) => accept(turn, token)));
      assert.deepEqual(answers.map(({ status }) => status).toSorted(), [200, 409, 409, 409]);
    }
  });

  it("fills its seats to the last one and no further", async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const owner = await anOwner();
      const answers = await Promise.all(
        Array.from({ length: 3 * SEATS }, (_, turn) => invite(turn, owner, anEmail(), "VIEWER")),
      );
      const sent = answers.filter(({ status }) => status === 201);
      assert.equal(sent.length, SEATS - 1);
      for (const { status, body } of answers.filter((answer) => !sent.includes(answer)))
        assert.deepEqual([status, body.error.reason], [402, "PLAN_LIMIT_EXCEEDED"]);
    }
  });

  it("either accepts an invitation or revokes it, never both", async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const owner = await anOwner();
      const token = await invited(owner, "VIEWER");
      const { data } = must(await client(0).get("/team/invitations", { token: owner.token }), 200);
      const [accepted, revoked] = await Promise.all([
        accept(0, token),
        client(1).delete(`/team/invitations/${data[0].id}`, { token: owner.token }),
      ]);
      assert.deepEqual([accepted.status, revoked.status], accepted.status === 200 ? [200, 409] : [410, 200]);
    }
  });

  it("shuts a suspended member out of the other process within 5 seconds", async () => {
    const owner = await anOwner();
    const { accessToken: token, user } = must(await accept(1, await invited(owner, "VIEWER")), 200);
    assert.equal((await client(1).get("/projects", { token })).status, 200);
    must(
      await client(0).patch(`/team/members/${user.id}`, { status: "SUSPENDED" }, { token: owner.token }),
      200,
    );
    await eventuallyHolds(
      async () => {
        const { body } = await client(1).get("/projects", { token });
        assert.equal(body.error?.reason, "MEMBERSHIP_SUSPENDED");
      },
      { timeoutMs: 6_000 },
    );
  });
});
