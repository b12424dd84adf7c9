#ifndef P2S_KEPT_RECORD_H
#define P2S_KEPT_RECORD_H

#define P2S_RECORD_SCHEMA 1

#endif
