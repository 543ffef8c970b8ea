import type { Config } from "../config.ts";
import { createPasswords } from "../domain/accounts/auth/passwords.ts";
import { setPassword } from "../domain/accounts/auth/email-verification.ts";
import { deleteProject } from "../domain/accounts/projects/projects.ts";
import type { Transact } from "../domain/kernel/work.ts";
import { DEMO_EMAIL, type DemoAccount, findDemo, newPassword, removeDemoFile } from "./demo-account.ts";
import { loadCommandConfig, withTransact } from "./with-database.ts";

type Change = { transact: Transact; config: Config; account: DemoAccount };

/**
 * Deletes the demo project as the API would: its keys become invalid and its ids answer 404. The account
 * stays.
 */
export const removeDemo = (): Promise<void> =>
  changeDemo(async ({ transact, config, account: { tenantId, projectId } }) => {
    if (projectId !== undefined) await transact((work) => deleteProject(work, tenantId, projectId));
    await removeDemoFile(config.dataDir);
    console.log("The demo project is deleted. To start all over, delete the data directory:");
    console.log(`  ${config.dataDir}`);
  });

export const renewDemoPassword = (): Promise<void> =>
  changeDemo(async ({ transact, account }) => {
    const password = newPassword();
    const hash = await createPasswords().hash(password);
    await transact((work) => setPassword(work, account.userId, hash));
    console.log(`${DEMO_EMAIL}  /  ${password}`);
  });

/** Runs `change` on the embedded database. @throws Error naming the server that holds it, if one does */
const changeDemo = async (change: (parts: Change) => Promise<void>): Promise<void> => {
  const config = await loadCommandConfig();
  if (config.mode !== "embedded") throw new Error("The demo belongs to embedded mode; MODE is cluster");
  await withTransact(config, async (transact) => {
    const state = await findDemo(transact);
    if (state.kind !== "found") throw new Error(`There is no demo project in ${config.dataDir}`);
    await change({ transact, config, account: state.account });
  });
};
