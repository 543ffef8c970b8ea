import { Migration } from "@mikro-orm/migrations";

/** When a link to a person of an identity provider was released: another person may take its place. */
export class Migration20261127000101 extends Migration {
  override up(): void {
    this.addSql(`alter table sso_identities add column released_at timestamptz(3)`);
  }

  override down(): void {
    this.addSql(`delete from sso_identities where released_at is not null`);
    this.addSql(`alter table sso_identities drop column released_at`);
  }
}
