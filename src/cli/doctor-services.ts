import type { Settings } from "../config.ts";
import type { AcmeSettings } from "../config/sections.ts";
import { type Check, fail, ok, portProblem, textOf } from "./doctor-checks.ts";
import { openWarehouseStore } from "../platform/warehouse/directory.ts";

const NAME = "Warehouse";

/** Writes and removes a file where events are written for a warehouse; nothing without one. */
export const checkWarehouse = async ({ warehouse }: Settings): Promise<Check[]> => {
  if (!warehouse) return [];
  const store = await openWarehouseStore(warehouse);
  try {
    await store.check();
    return [{ name: NAME, status: "ok", message: `${store.name}, writable` }];
  } catch (error) {
    const remedy =
      warehouse.store.kind === "directory"
        ? "give the user of the workers the rights to it, and space; or set WAREHOUSE_URL to another one"
        : "check WAREHOUSE_URL, WAREHOUSE_ENDPOINT, WAREHOUSE_REGION, the key, and what it is allowed to do";
    return [{ name: NAME, status: "fail", message: (error as Error).message, remedy }];
  }
};

const checkAuthority = async (acme: AcmeSettings): Promise<Check> => {
  // Loaded here, because most servers order no certificates.
  const { checkDirectory, readAuthorities } = await import("../platform/acme-check.ts");
  const { directoryUrl, caFile } = acme;
  const name = "Certificates";
  let authorities: string[] | undefined;
  try {
    if (caFile !== undefined) authorities = await readAuthorities(caFile);
  } catch (error) {
    const remedy = "set ACME_CA_FILE to a file with certificates in PEM that this user may read";
    return fail(name, `${caFile} cannot be used: ${textOf(error)}`, remedy);
  }
  try {
    await checkDirectory(acme, authorities);
    return ok(name, `ordered from ${directoryUrl}`);
  } catch (error) {
    const remedy = "check ACME_DIRECTORY_URL, the way there, and ACME_CA_FILE if the authority is your own";
    return fail(name, `${directoryUrl} cannot be used: ${textOf(error)}`, remedy);
  }
};

const checkTlsPort = async (
  { host }: Settings,
  { tlsPort }: AcmeSettings,
  isRunning: boolean,
): Promise<Check> => {
  const name = `TLS port ${tlsPort}`;
  if (tlsPort === 0) return ok("TLS port", "TLS_PORT=0: a free port is taken at each start");
  if (isRunning) return ok(name, "the server that is running has it");
  const problem = await portProblem(host, tlsPort);
  if (problem === undefined) return ok(name, `free on ${host}`);
  return fail(name, `cannot be used on ${host}: ${problem}`, "stop what has it, or set TLS_PORT");
};

/** What custom domains need, where the server orders certificates itself. */
export const checkCustomDomains = async (settings: Settings, isRunning: boolean): Promise<Check[]> => {
  const acme = settings.domains?.acme;
  if (!acme) return [];
  return Promise.all([checkTlsPort(settings, acme, isRunning), checkAuthority(acme)]);
};

/** What selling plans needs. */
export const checkBilling = async ({ billing }: Settings): Promise<Check[]> => {
  if (!billing) return [];
  const name = "Stripe";
  try {
    const { checkStripePrices } = await import("../platform/stripe.ts");
    const problems = await checkStripePrices(billing);
    if (problems.length === 0) return [ok(name, `${billing.prices.length} prices`)];
    const remedy = "make the price at Stripe, or correct STRIPE_PRICES; the key is of one mode, test or live";
    return problems.map((problem) => fail(name, problem, remedy));
  } catch (error) {
    return [fail(name, textOf(error), "check STRIPE_SECRET_KEY and the way to api.stripe.com")];
  }
};
