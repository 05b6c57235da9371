//! Who may do what, and what is hidden from whom.

use super::Effect::{Checks, Idle, Later, Only, Sets};
use super::reasons::{AUDIT, CREDENTIALS, PEM, PERMISSIONS, PLAIN_FILES, ROLES_LOCAL};
use super::{Key, Value, key, set};
use crate::config::clients::{client_auth, file};
use crate::config::internode::InternodeEncryption;
use crate::config::value::Shape::{Class, Flag, List, Map, OneOf, Text, Time, Whole};
use crate::config::value::{INT, LONG, MS};
use query::Authenticator;
use types::Consistency;

pub(super) const KEYS: &[Key] = &[
    key("audit_logging_options.allow_nodetool_archive_command", Flag, "false", Later(AUDIT)),
    key("audit_logging_options.archive_command", Text, "", Later(AUDIT)),
    key("audit_logging_options.audit_logs_dir", Text, "audit", Later(AUDIT)),
    key("audit_logging_options.block", Flag, "true", Later(AUDIT)),
    key("audit_logging_options.enabled", Flag, "false", Later(AUDIT)),
    key("audit_logging_options.excluded_categories", Text, "", Later(AUDIT)),
    key(
        "audit_logging_options.excluded_keyspaces",
        Text,
        "system,system_schema,system_virtual_schema",
        Later(AUDIT),
    ),
    key("audit_logging_options.excluded_users", Text, "", Later(AUDIT)),
    key("audit_logging_options.included_categories", Text, "", Later(AUDIT)),
    key("audit_logging_options.included_keyspaces", Text, "", Later(AUDIT)),
    key("audit_logging_options.included_users", Text, "", Later(AUDIT)),
    key("audit_logging_options.logger.class_name", Text, "BinAuditLogger", Later(AUDIT)),
    key("audit_logging_options.logger.parameters", Map, "{}", Later(AUDIT)),
    key("audit_logging_options.max_archive_retries", INT, "10", Later(AUDIT)),
    key("audit_logging_options.max_log_size", LONG, "17179869184", Later(AUDIT)),
    key("audit_logging_options.max_queue_weight", INT, "268435456", Later(AUDIT)),
    key("audit_logging_options.roll_cycle", Text, "HOURLY", Later(AUDIT)),
    key("auth_cache_warming_enabled", Flag, "false", Idle(ROLES_LOCAL)),
    key(
        "auth_read_consistency_level",
        OneOf(&["ONE", "TWO", "THREE", "QUORUM", "ALL", "LOCAL_QUORUM", "EACH_QUORUM", "LOCAL_ONE"]),
        "LOCAL_QUORUM",
        Checks(|c, v| set(&mut c.authentication.read_level, level(v)?)),
    ),
    key(
        "auth_write_consistency_level",
        OneOf(&["ANY", "ONE", "TWO", "THREE", "QUORUM", "ALL", "LOCAL_QUORUM", "EACH_QUORUM", "LOCAL_ONE"]),
        "EACH_QUORUM",
        Checks(|c, v| set(&mut c.authentication.write_level, level(v)?)),
    ),
    key(
        "authenticator.class_name",
        Class,
        "AllowAllAuthenticator",
        Checks(|c, v| set(&mut c.authentication.authenticator, authenticator(&v.text())?)),
    ),
    key("authenticator.parameters", Map, "null", Idle("it has no parameters here")),
    key(
        "authorizer.class_name",
        Class,
        "AllowAllAuthorizer",
        Checks(|c, v| set(&mut c.authorization.by_permissions, is_cassandra(&v.text(), "Authorizer")?)),
    ),
    key("authorizer.parameters", Map, "null", Idle("it has no parameters here")),
    key(
        "cidr_authorizer.class_name",
        Class,
        "AllowAllCIDRAuthorizer",
        Only(&["AllowAllCIDRAuthorizer"], "roles are not bound to client addresses"),
    ),
    key("cidr_authorizer.parameters", Map, "null", Idle("it has no parameters here")),
    key(
        "client_encryption_options.accepted_protocols",
        List,
        "null",
        Sets(|c, v| c.clients.accepted_protocols = v.list()),
    ),
    key("client_encryption_options.algorithm", Text, "null", Idle(PEM)),
    key(
        "client_encryption_options.certficate_revocation_list",
        Text,
        "",
        Only(&[""], "revoked certificates are not looked up"),
    ),
    key("client_encryption_options.certificate", Text, "", Sets(|c, v| c.clients.certificate = file(v))),
    key(
        "client_encryption_options.cipher_suites",
        List,
        "null",
        Sets(|c, v| c.clients.cipher_suites = v.list()),
    ),
    key("client_encryption_options.enabled", Flag, "false", Sets(|c, v| c.clients.is_encrypted = v.flag())),
    key("client_encryption_options.keyfile", Text, "", Sets(|c, v| c.clients.keyfile = file(v))),
    key("client_encryption_options.keystore", Text, "null", Sets(|c, v| c.clients.keystore = file(v))),
    key("client_encryption_options.keystore_password", Text, "null", Idle(PEM)),
    key("client_encryption_options.optional", Flag, "false", Sets(|c, v| c.clients.is_optional = v.flag())),
    key(
        "client_encryption_options.priority_string",
        Text,
        "",
        Idle("the words are GnuTLS's; see accepted_protocols and cipher_suites"),
    ),
    key(
        "client_encryption_options.protocol",
        Text,
        "null",
        Sets(|c, v| c.clients.protocol = Some(v.text()).filter(|name| !name.is_empty())),
    ),
    key(
        "client_encryption_options.require_client_auth",
        OneOf(&["true", "false", "optional"]),
        "false",
        Sets(|c, v| c.clients.client_auth = client_auth(v)),
    ),
    key(
        "client_encryption_options.require_endpoint_verification",
        Flag,
        "false",
        Only(&["false"], "clients' certificates are not compared with their addresses"),
    ),
    key(
        "client_encryption_options.ssl_context_factory.class_name",
        Class,
        "org.apache.cassandra.security.DefaultSslContextFactory",
        Only(
            &[
                "DefaultSslContextFactory",
                "org.apache.cassandra.security.DefaultSslContextFactory",
                "PEMBasedSslContextFactory",
                "org.apache.cassandra.security.PEMBasedSslContextFactory",
            ],
            "keys and certificates come from PEM files",
        ),
    ),
    key("client_encryption_options.ssl_context_factory.parameters", Map, "{}", Idle(PEM)),
    key("client_encryption_options.store_type", Text, "JKS", Idle(PEM)),
    key("client_encryption_options.truststore", Text, "null", Sets(|c, v| c.clients.truststore = file(v))),
    key("client_encryption_options.truststore_password", Text, "null", Idle(PEM)),
    key("credentials_cache_active_update", Flag, "false", Later(CREDENTIALS)),
    key(
        "credentials_cache_max_entries",
        Whole(0, 1_000_000),
        "1000",
        Sets(|c, v| c.authentication.remembered_max = v.whole() as usize),
    ),
    key("credentials_update_interval", Time(MS), "null", Later(CREDENTIALS)),
    key("credentials_validity", Time(MS), "2s", Sets(|c, v| c.authentication.validity = v.time())),
    key("crypto_provider.class_name", Class, "null", Idle(PLAIN_FILES)),
    key("crypto_provider.parameters", Map, "null", Idle(PLAIN_FILES)),
    key("full_query_logging_options.allow_nodetool_archive_command", Flag, "false", Later(AUDIT)),
    key("full_query_logging_options.archive_command", Text, "", Later(AUDIT)),
    key("full_query_logging_options.block", Flag, "true", Later(AUDIT)),
    key("full_query_logging_options.log_dir", Text, "", Later(AUDIT)),
    key("full_query_logging_options.max_archive_retries", INT, "10", Later(AUDIT)),
    key("full_query_logging_options.max_log_size", LONG, "17179869184", Later(AUDIT)),
    key("full_query_logging_options.max_queue_weight", INT, "268435456", Later(AUDIT)),
    key("full_query_logging_options.roll_cycle", Text, "HOURLY", Later(AUDIT)),
    key(
        "internode_authenticator.class_name",
        Class,
        "AllowAllInternodeAuthenticator",
        Only(&["AllowAllInternodeAuthenticator"], "nodes do not authenticate each other yet"),
    ),
    key(
        "internode_authenticator.parameters",
        Map,
        "null",
        Later("nodes are told apart by their certificates: server_encryption_options.require_client_auth"),
    ),
    key(
        "network_authorizer.class_name",
        Class,
        "AllowAllNetworkAuthorizer",
        Checks(|c, v| set(&mut c.authorization.by_datacenter, is_cassandra(&v.text(), "NetworkAuthorizer")?)),
    ),
    key("network_authorizer.parameters", Map, "null", Idle("it has no parameters here")),
    key("permissions_cache_active_update", Flag, "false", Idle(PERMISSIONS)),
    key("permissions_cache_max_entries", INT, "1000", Idle(PERMISSIONS)),
    key("permissions_update_interval", Time(MS), "null", Idle(PERMISSIONS)),
    key("permissions_validity", Time(MS), "2s", Idle(PERMISSIONS)),
    key(
        "role_manager.class_name",
        Class,
        "CassandraRoleManager",
        Only(&["CassandraRoleManager"], "roles are kept as Cassandra keeps them"),
    ),
    key("role_manager.parameters", Map, "null", Idle("it has no parameters here")),
    key("roles_cache_active_update", Flag, "false", Idle(PERMISSIONS)),
    key("roles_cache_max_entries", INT, "1000", Idle(PERMISSIONS)),
    key("roles_update_interval", Time(MS), "null", Idle(PERMISSIONS)),
    key("roles_validity", Time(MS), "2s", Idle(PERMISSIONS)),
    key(
        "server_encryption_options.accepted_protocols",
        List,
        "null",
        Sets(|c, v| c.internode.accepted_protocols = v.list()),
    ),
    key("server_encryption_options.algorithm", Text, "null", Idle(PEM)),
    key("server_encryption_options.certificate", Text, "", Sets(|c, v| c.internode.certificate = file(v))),
    key(
        "server_encryption_options.cipher_suites",
        List,
        "null",
        Sets(|c, v| c.internode.cipher_suites = v.list()),
    ),
    key(
        "server_encryption_options.enabled",
        Flag,
        "false",
        Idle("internode_encryption says what is encrypted, as in Cassandra"),
    ),
    key(
        "server_encryption_options.internode_encryption",
        OneOf(&["all", "none", "dc", "rack"]),
        "none",
        Sets(|c, v| c.internode.encryption = InternodeEncryption::parse(&v.text())),
    ),
    key("server_encryption_options.keyfile", Text, "", Sets(|c, v| c.internode.keyfile = file(v))),
    key(
        "server_encryption_options.keystore",
        Text,
        "conf/.keystore",
        Sets(|c, v| c.internode.keystore = file(v)),
    ),
    key("server_encryption_options.keystore_password", Text, "null", Idle(PEM)),
    key(
        "server_encryption_options.legacy_ssl_storage_port_enabled",
        Flag,
        "false",
        Sets(|c, v| c.internode.is_ssl_port_open = v.flag()),
    ),
    key("server_encryption_options.optional", Flag, "false", Sets(|c, v| c.internode.is_optional = v.flag())),
    key(
        "server_encryption_options.outbound_keystore",
        Text,
        "null",
        Sets(|c, v| c.internode.outbound_keystore = file(v)),
    ),
    key("server_encryption_options.outbound_keystore_password", Text, "null", Idle(PEM)),
    key(
        "server_encryption_options.priority_string",
        Text,
        "",
        Idle("the words are GnuTLS's; see accepted_protocols and cipher_suites"),
    ),
    key(
        "server_encryption_options.protocol",
        Text,
        "null",
        Sets(|c, v| c.internode.protocol = Some(v.text()).filter(|name| !name.is_empty())),
    ),
    key(
        "server_encryption_options.require_client_auth",
        Flag,
        "false",
        Sets(|c, v| c.internode.is_client_auth_required = v.flag()),
    ),
    key(
        "server_encryption_options.require_endpoint_verification",
        Flag,
        "false",
        Only(&["false"], "nodes' certificates are not compared with their addresses"),
    ),
    key(
        "server_encryption_options.ssl_context_factory.class_name",
        Class,
        "org.apache.cassandra.security.DefaultSslContextFactory",
        Only(
            &[
                "DefaultSslContextFactory",
                "org.apache.cassandra.security.DefaultSslContextFactory",
                "PEMBasedSslContextFactory",
                "org.apache.cassandra.security.PEMBasedSslContextFactory",
            ],
            "keys and certificates come from PEM files",
        ),
    ),
    key("server_encryption_options.ssl_context_factory.parameters", Map, "{}", Idle(PEM)),
    key("server_encryption_options.store_type", Text, "JKS", Idle(PEM)),
    key(
        "server_encryption_options.truststore",
        Text,
        "conf/.truststore",
        Sets(|c, v| c.internode.truststore = file(v)),
    ),
    key("server_encryption_options.truststore_password", Text, "null", Idle(PEM)),
    key("transparent_data_encryption_options.chunk_length_kb", INT, "64", Idle(PLAIN_FILES)),
    key("transparent_data_encryption_options.cipher", Text, "AES/CBC/PKCS5Padding", Idle(PLAIN_FILES)),
    key(
        "transparent_data_encryption_options.enabled",
        Flag,
        "false",
        Only(&["false"], "files are not encrypted"),
    ),
    key("transparent_data_encryption_options.iv_length", INT, "16", Idle(PLAIN_FILES)),
    key("transparent_data_encryption_options.key_alias", Text, "null", Idle(PLAIN_FILES)),
    key("transparent_data_encryption_options.key_provider.class_name", Text, "null", Idle(PLAIN_FILES)),
    key("transparent_data_encryption_options.key_provider.parameters", Map, "null", Idle(PLAIN_FILES)),
];

/// A consistency level; the shape of the key says which.
fn level(value: &Value) -> Result<Consistency, String> {
    Consistency::parse(&value.text()).ok_or_else(|| "a consistency level".into())
}

/// Class names come with their package or without.
fn authenticator(class: &str) -> Result<Authenticator, String> {
    match class.rsplit('.').next() {
        Some("AllowAllAuthenticator") => Ok(Authenticator::AllowAll),
        Some("PasswordAuthenticator") => Ok(Authenticator::Password),
        _ => Err("AllowAllAuthenticator or PasswordAuthenticator".into()),
    }
}

/// Whether a class of this kind is Cassandra's own, or the one that lets everybody through.
fn is_cassandra(class: &str, kind: &str) -> Result<bool, String> {
    let name = class.rsplit('.').next().unwrap_or_default();
    match name.strip_suffix(kind) {
        Some("AllowAll") => Ok(false),
        Some("Cassandra") => Ok(true),
        _ => Err(format!("AllowAll{kind} or Cassandra{kind}")),
    }
}
