import { Migration } from "@mikro-orm/migrations";

/** The secret of a new authenticator app waits beside the one that it replaces. */
export class Migration20261128000001 extends Migration {
  override up(): void {
    this.addSql(`alter table totp_secrets
      add column next_sealed text, add column next_created_at timestamptz(3)`);
  }

  override down(): void {
    this.addSql(`alter table totp_secrets drop column next_sealed, drop column next_created_at`);
  }
}
