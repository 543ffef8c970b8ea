import { startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { aTenantOfAllTime, sendEvents } from "../support/analytics/histories.ts";
import { agreeOnFunnel } from "../support/analytics/truth-funnels.ts";
import { hasRealData, type WorldcupEvent, worldcupLines } from "../support/data/worldcup.ts";
import { hasTruth, readTruth } from "../support/data/truth.ts";

const truth = hasTruth("worldcup") ? readTruth("worldcup") : undefined;

describe("funnels of the football World Cups since 1930", function () {
  let api: TestApp;
  let tenant: Tenant;

  before(async function () {
    if (!hasRealData || !truth) this.skip();
    api = await startApp();
    tenant = await aTenantOfAllTime(api);
    const events: WorldcupEvent[] = [];
    for await (const event of worldcupLines()) events.push(event);
    await sendEvents(api, tenant, events, 500_000);
  });

  for (const [name, funnel] of Object.entries(truth?.funnels ?? {}))
    it(`have the very numbers of ${name}`, () => agreeOnFunnel(api, tenant, funnel));
});
