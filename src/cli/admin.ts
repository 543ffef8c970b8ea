import type { Command } from "commander";
import type { CreateFlags, PasswordFlags } from "./admin-commands.ts";

const GENERATE = ["--generate", "make a password and show it once"] as const;

/** Adds `laurel admin create|list|disable|enable|reset-password|reset-mfa|end-sso-enforcement`. */
export const addAdminCommand = (program: Command): void => {
  const admin = program
    .command("admin")
    .summary("super-admins: who runs the platform")
    .description(
      "Super-admins approve and suspend tenants; they are no users of any tenant. A password is asked for\n" +
        "on the terminal, or read from standard input. In embedded mode, stop the server meanwhile.",
    );
  admin
    .command("create")
    .description("make a super-admin")
    .requiredOption("--email <email>", "address to log in with")
    .option("--name <name>", "name to show; default: the address up to its @")
    .option(...GENERATE)
    .action(async (flags: CreateFlags) => (await commands()).create(flags));
  admin
    .command("list")
    .description("list super-admins")
    .action(async () => (await commands()).list());
  admin
    .command("disable")
    .argument("<email>")
    .description("shut a super-admin out; running servers follow within 5 seconds")
    .action(async (email: string) => (await commands()).disable(email));
  admin
    .command("enable")
    .argument("<email>")
    .description("let a disabled super-admin in again")
    .action(async (email: string) => (await commands()).enable(email));
  admin
    .command("reset-password")
    .argument("<email>")
    .description("give a super-admin a new password and end every login of theirs")
    .option(...GENERATE)
    .action(async (email: string, flags: PasswordFlags) => (await commands()).resetPassword(email, flags));
  admin
    .command("reset-mfa")
    .argument("<email>")
    .description("remove the second factor of a super-admin who has lost it, and end every login of theirs")
    .action(async (email: string) => (await commands()).resetMfa(email));
  admin
    .command("end-sso-enforcement")
    .argument("<tenantId>")
    .description("let the people of a tenant sign in without its identity provider, which it has lost")
    .action(async (tenantId: string) => (await commands()).endSsoEnforcement(tenantId));
};

/** Loaded on demand, because these commands load the database. */
const commands = () => import("./admin-commands.ts");
