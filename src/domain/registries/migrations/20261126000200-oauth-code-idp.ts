import { Migration } from "@mikro-orm/migrations";

/** Codes know the identity provider that they stand for. */
export class Migration20261126000200 extends Migration {
  override up(): void {
    this.addSql(`alter table oauth_codes add column idp text`);
  }

  override down(): void {
    this.addSql(`alter table oauth_codes drop column idp`);
  }
}
