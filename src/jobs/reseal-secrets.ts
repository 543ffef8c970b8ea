import type { App } from "../app.ts";
import { throwOutage } from "../domain/kernel/outages.ts";
import { STEP } from "../domain/kernel/timeouts.ts";
import { resealPage, SEALED_VALUES, type SealedValue } from "../domain/registries/sealed-values.ts";
import type { Job } from "./job.ts";

const HOUR_MS = 3_600_000;
/** Values per transaction. */
const VALUES_AT_ONCE = 200;

/** Seals what is kept for long under the first key of ENCRYPTION_KEYS, so that others can be taken away. */
export const resealSecrets: Job = {
  timeouts: STEP,
  concurrency: 1,
  everyMs: HOUR_MS,
  run: async (app) => {
    for (const value of SEALED_VALUES) {
      try {
        await resealAll(app, value);
      } catch (err) {
        throwOutage(err);
        app.log.error({ err, value: value.name }, "secrets could not be encrypted anew");
      }
    }
  },
};

const resealAll = async (app: App, value: SealedValue): Promise<void> => {
  const { secretBox, log } = app;
  let [sealed, unreadable] = [0, 0];
  let after: string | undefined;
  do {
    const from = { after, limit: VALUES_AT_ONCE };
    const page = await app.transact((work) => resealPage(work, secretBox, value, from));
    sealed += page.sealed;
    unreadable += page.unreadable;
    after = page.next;
    await app.limits.pause?.();
  } while (after !== undefined);
  const { name } = value;
  if (sealed > 0) log.info({ value: name, count: sealed }, "secrets were encrypted anew with the first key");
  if (unreadable > 0)
    log.warn(
      { value: name, count: unreadable },
      "secrets cannot be read: their key is not in ENCRYPTION_KEYS",
    );
};
