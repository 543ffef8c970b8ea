import type { Command } from "commander";

/** Adds `laurel demo remove` and `laurel demo password`. */
export const addDemoCommand = (program: Command): void => {
  const demo = program.command("demo").description("the demo project of an embedded database");
  demo
    .command("remove")
    .description("delete the demo project with its players, events and keys; it is not made again")
    .action(async () => {
      const { removeDemo } = await import("./demo-change.ts");
      await removeDemo();
    });
  demo
    .command("password")
    .description("give the demo's account a new password and show it")
    .action(async () => {
      const { renewDemoPassword } = await import("./demo-change.ts");
      await renewDemoPassword();
    });
};
