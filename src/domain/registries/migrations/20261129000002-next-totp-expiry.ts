import { Migration } from "@mikro-orm/migrations";

/** Finds secrets of authenticator apps that nobody has confirmed. */
export class Migration20261129000002 extends Migration {
  override up(): void {
    this.addSql(`create index totp_secrets_next_idx on totp_secrets (next_created_at)
      where next_sealed is not null`);
    this.addSql(
      `create index totp_secrets_first_idx on totp_secrets (created_at) where confirmed_at is null`,
    );
  }

  override down(): void {
    this.addSql(`drop index totp_secrets_next_idx`);
    this.addSql(`drop index totp_secrets_first_idx`);
  }
}
