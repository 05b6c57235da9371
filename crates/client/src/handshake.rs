//! Opening a conversation: OPTIONS, STARTUP, a login if the server wants one, and USE if a keyspace is wanted. One request at a time, before anything else is sent.

use crate::connection::Options;
use crate::error::Error;
use crate::outcome::Answer;
use crate::wire::Wire;
use protocol::assembler::Assembler;
use protocol::envelope::{Direction, Version};
use protocol::limits::RESPONSE_BODY_BYTES_MAX;
use protocol::outgoing::Outgoing;
use protocol::request::{Parameters, Query, Request, Startup};
use protocol::response::Response;
use types::Consistency;

/// What the handshake leaves for the conversation.
pub(crate) struct Opened {
    pub(crate) assembler: Assembler,
    pub(crate) outgoing: Outgoing,
    pub(crate) supported: Vec<(String, Vec<String>)>,
}

fn closed(error: &std::io::Error) -> Error {
    Error::Closed(error.to_string())
}

async fn ask(
    wire: &Wire,
    assembler: &mut Assembler,
    outgoing: Outgoing,
    request: &Request<'_>,
) -> Result<Answer, Error> {
    let mut envelope = Vec::new();
    request.encode(&mut envelope, outgoing.version, 0);
    let mut dressed = Vec::new();
    outgoing.write(&envelope, &mut dressed);
    wire.send_all(dressed).await.map_err(|e| closed(&e))?;
    loop {
        if let Some(envelope) = assembler.next()? {
            return Ok(Answer { header: envelope.header, body: envelope.body.into() });
        }
        if !wire.receive(assembler).await.map_err(|e| closed(&e))? {
            return Err(Error::Closed("by the server, during the handshake".into()));
        }
    }
}

pub(crate) async fn open(wire: &Wire, options: &Options) -> Result<Opened, Error> {
    let mut assembler = Assembler::new(Direction::Responses, RESPONSE_BODY_BYTES_MAX);
    let mut outgoing = Outgoing::bare(options.version);
    let answer = match ask(wire, &mut assembler, outgoing, &Request::Options).await {
        // To one that wants TLS these bytes are none: it ends the connection, or sends an alert of TLS.
        Err(Error::Closed(reason)) if options.tls.is_none() => {
            return Err(Error::Closed(format!("{reason}; does it speak only TLS?")));
        }
        Err(error @ Error::Protocol(_)) if options.tls.is_none() => {
            return Err(Error::Closed(format!("{error}; does the server speak only TLS?")));
        }
        answer => answer?,
    };
    let Response::Supported(supported) = answer.response()? else {
        return Err(Error::Unexpected("OPTIONS"));
    };
    let mut startup = vec![("CQL_VERSION", "3.0.0"), ("DRIVER_NAME", "messina")];
    if let Some(name) = options.compression.name() {
        startup.push(("COMPRESSION", name));
    }
    // The answer to STARTUP may already be compressed before version 5; in version 5 it never is.
    if options.version < Version::V5 {
        assembler.set_compression(options.compression);
    }
    let startup = Request::Startup(Startup { options: startup });
    let answer = ask(wire, &mut assembler, outgoing, &startup).await?;
    outgoing.compression = options.compression;
    assembler.set_compression(options.compression);
    if options.version == Version::V5 {
        outgoing.segmented = true;
        assembler.use_segments();
    }
    match answer.response()? {
        Response::Ready => {}
        Response::Authenticate(_) => {
            let (user, password) =
                options.credentials.as_ref().ok_or(Error::Unexpected("STARTUP: the server wants a login"))?;
            let token = format!("\0{user}\0{password}");
            let login = Request::AuthResponse(Some(token.as_bytes()));
            let answer = ask(wire, &mut assembler, outgoing, &login).await?;
            let Response::AuthSuccess(_) = answer.response()? else {
                return Err(Error::Unexpected("AUTH_RESPONSE"));
            };
        }
        _ => return Err(Error::Unexpected("STARTUP")),
    }
    if let Some(keyspace) = &options.keyspace {
        let text = format!("USE {}", types::text::quote_name(keyspace));
        let query = Query { query: &text, parameters: Parameters::at(Consistency::One) };
        let answer = ask(wire, &mut assembler, outgoing, &Request::Query(query)).await?;
        let Response::SetKeyspace(_) = answer.response()? else {
            return Err(Error::Unexpected("USE"));
        };
    }
    Ok(Opened { assembler, outgoing, supported })
}
