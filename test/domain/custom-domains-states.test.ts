import assert from "node:assert/strict";
import { customDomainProblem, nameOfHost } from "../../src/domain/accounts/domains/known.ts";
import { afterCheck, type Step } from "../../src/domain/accounts/domains/states.ts";
import { normaliseDomain } from "../../src/domain/accounts/sso/domain-name.ts";
import { RULES } from "../support/domains/server.ts";

const DAY_MS = 86_400_000;

describe("names of custom domains", () => {
  const problemOf = (text: string) => customDomainProblem(normaliseDomain(text), RULES.ownHosts);

  it("are those that somebody can register, and none of the server's own", () => {
    for (const good of ["acme.com", "play.acme.co.uk", "spiele.bücher.de", "PLAY.Acme.com", "acme.github.io"])
      assert.equal(problemOf(good), undefined, good);
    for (const bad of [
      "com",
      "co.uk",
      "github.io",
      "localhost",
      "acme",
      "acme.internal",
      "printer.local",
      "acme.test",
      "127.0.0.1",
      "2130706433",
      "0x7f.1",
      "[::1]",
      "::1",
      "*.acme.com",
      "acme.com:443",
      "acme..com",
      "-acme.com",
      "a_b.acme.com",
      "http://acme.com",
      "acme.com/x",
      "acme.com.",
      "",
      `${"a".repeat(64)}.com`,
      "edge.laurel-tests.com",
      "x.edge.laurel-tests.com",
      "laurel-tests.com",
      "api.laurel-tests.com",
    ])
      assert.notEqual(problemOf(bad), undefined, bad);
  });

  it("are found in Host headers however those are spelt", () => {
    for (const host of [
      "play.acme.com",
      "PLAY.acme.com",
      "play.acme.com.",
      "play.acme.com:8443",
      "play.acme.com.:1",
    ])
      assert.equal(nameOfHost(host), "play.acme.com", host);
    for (const host of [undefined, "", "localhost:1", "127.0.0.1:80", "[::1]:80"])
      assert.equal(nameOfHost(host), "");
  });
});

describe("states of custom domains", () => {
  const now = new Date("2026-12-01T00:00:00Z");
  const ago = (ms: number): Date => new Date(now.getTime() - ms);
  const certificate = { issuer: "x", notBefore: ago(DAY_MS), notAfter: ago(-DAY_MS), renewAt: ago(0) };
  const fresh = {
    status: "PENDING" as const,
    pendingSince: ago(60_000),
    failingSince: null,
    degradedAt: null,
    planLostAt: null,
    tenantSuspendedAt: null,
    unknownSince: null,
    certificate: null,
  };
  const [ok, missing, unknown] = (["OK", "MISSING", "UNKNOWN"] as const).map((result) => ({
    txt: result,
    routing: "OK" as const,
  }));
  type Known = Parameters<typeof afterCheck>[0];
  type Parts = Partial<Parameters<typeof afterCheck>[2]>;
  const step = (known: Partial<Known>, seen = ok!, parts: Parts = {}): Step =>
    afterCheck({ ...fresh, ...known }, seen, {
      now,
      entitlement: "ENTITLED",
      hasOwnCertificate: true,
      ...parts,
    });
  const minutes = ({ nextCheckAt }: Step): number => (nextCheckAt!.getTime() - now.getTime()) / 60_000;

  it("go from the first record to the certificate", () => {
    assert.equal(step({}, missing).status, "PENDING");
    assert.equal(minutes(step({}, missing)), 1);
    assert.equal(minutes(step({ pendingSince: ago(2 * 3_600_000) }, missing)), 10);
    assert.equal(step({}).status, "VERIFIED");
    assert.equal(step({}, ok, { hasOwnCertificate: false }).status, "ACTIVE");
    assert.equal(step({ status: "VERIFIED", certificate }).status, "ACTIVE");
    assert.equal(step({ pendingSince: ago(3 * DAY_MS) }, missing).status, "FAILED");
  });

  it("are not changed by servers that give no answer", () => {
    for (const status of ["VERIFIED", "ACTIVE", "DEGRADED"] as const) {
      const known = { status, certificate, failingSince: ago(30 * DAY_MS), degradedAt: ago(30 * DAY_MS) };
      assert.equal(step(known, unknown).status, status);
      assert.equal(minutes(step(known, unknown)), 10);
    }
  });

  it("are degraded, suspended, and made good again", () => {
    const active = { status: "ACTIVE" as const, certificate };
    assert.equal(step(active, missing).status, "ACTIVE");
    assert.deepEqual(step(active, missing).failingSince, now);
    assert.equal(step({ ...active, failingSince: ago(2.9 * DAY_MS) }, missing).status, "ACTIVE");
    const degraded = step({ ...active, failingSince: ago(3 * DAY_MS) }, missing);
    assert.deepEqual([degraded.status, degraded.notice?.change], ["DEGRADED", "DEGRADED"]);
    const known = { status: "DEGRADED" as const, certificate, failingSince: ago(9 * DAY_MS) };
    assert.equal(step({ ...known, degradedAt: ago(13 * DAY_MS) }, missing).status, "DEGRADED");
    assert.equal(step({ ...known, degradedAt: ago(14 * DAY_MS) }, missing).status, "SUSPENDED");
    const good = step({ ...known, degradedAt: ago(13 * DAY_MS) });
    assert.deepEqual([good.status, good.failingSince, good.degradedAt], ["ACTIVE", null, null]);
  });

  it("end seven days after the plan has lost them", () => {
    const active = { status: "ACTIVE" as const, certificate };
    const lost = step(active, ok, { entitlement: "PLAN_LOST" });
    assert.deepEqual([lost.status, lost.planLostAt, lost.notice?.change], ["ACTIVE", now, "PLAN_LOST"]);
    const later = step({ ...active, planLostAt: ago(6 * DAY_MS) }, ok, { entitlement: "PLAN_LOST" });
    assert.deepEqual([later.status, later.notice], ["ACTIVE", undefined]);
    assert.equal(step({ ...active, planLostAt: ago(6 * DAY_MS) }).planLostAt, null);
    const over = step({ ...active, planLostAt: ago(7 * DAY_MS) }, unknown, { entitlement: "PLAN_LOST" });
    assert.equal(over.status, "SUSPENDED");
    assert.equal(step({}, ok, { entitlement: "PLAN_LOST" }).status, "PENDING");
  });

  it("take DNS servers that have given no answer for a week for records that are missing", () => {
    const active = { status: "ACTIVE" as const, certificate };
    assert.deepEqual(step(active, unknown).unknownSince, now);
    const week = { ...active, unknownSince: ago(6.9 * DAY_MS) };
    const before = step(week, unknown);
    assert.deepEqual([before.failingSince, before.unknownSince], [null, week.unknownSince]);
    const over = { ...active, unknownSince: ago(7 * DAY_MS) };
    const after = step(over, unknown);
    assert.deepEqual([after.status, after.failingSince, minutes(after)], ["ACTIVE", now, 360]);
    assert.deepEqual(after.unknownSince, over.unknownSince);
    assert.equal(step({ ...over, failingSince: ago(3 * DAY_MS) }, unknown).status, "DEGRADED");
    const degraded = { ...over, status: "DEGRADED" as const, degradedAt: ago(14 * DAY_MS) };
    assert.equal(step(degraded, unknown).status, "SUSPENDED");
    assert.equal(step(week).unknownSince, null, "one answer begins anew");
    assert.equal(step(week, missing).unknownSince, null);
  });

  it("end thirty days after their tenant was suspended, and begin for none that is", () => {
    const entitlement = "TENANT_SUSPENDED" as const;
    const active = { status: "ACTIVE" as const, certificate };
    const first = step(active, ok, { entitlement });
    const { status, notice } = first;
    assert.deepEqual([status, first.tenantSuspendedAt, notice?.change], ["ACTIVE", now, entitlement]);
    const later = { ...active, tenantSuspendedAt: ago(29 * DAY_MS) };
    assert.equal(step(later, ok, { entitlement }).status, "ACTIVE");
    assert.equal(step(later).tenantSuspendedAt, null);
    const over = { ...later, tenantSuspendedAt: ago(30 * DAY_MS) };
    assert.equal(step(over, ok, { entitlement }).status, "SUSPENDED");
    assert.equal(step({}, ok, { entitlement }).status, "PENDING");
  });

  it("have the whole grace of a lost plan after a suspension, and the reverse", () => {
    const active = { status: "ACTIVE" as const, certificate };
    const suspended = { ...active, tenantSuspendedAt: ago(29 * DAY_MS) };
    const lost = step(suspended, ok, { entitlement: "PLAN_LOST" });
    assert.deepEqual([lost.status, lost.planLostAt, lost.tenantSuspendedAt], ["ACTIVE", now, null]);
    assert.deepEqual(lost.notice, { change: "PLAN_LOST", until: ago(-7 * DAY_MS) });
    const without = { ...active, planLostAt: ago(6 * DAY_MS) };
    const ended = step(without, ok, { entitlement: "TENANT_SUSPENDED" });
    assert.deepEqual([ended.status, ended.planLostAt, ended.tenantSuspendedAt], ["ACTIVE", null, now]);
    assert.deepEqual(ended.notice, { change: "TENANT_SUSPENDED", until: ago(-30 * DAY_MS) });
  });
});
